# The tool alone, for the debug container of a pod: the package, its native engine and the client, without the course.
#   docker build -t kafkagroups-tool -f Containerfile.tool .
#   docker run --rm --volume /var/lib/kafka/data:/data:ro kafkagroups-tool check /data
FROM python:3.12-slim AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends cargo \
    && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip wheel --wheel-dir /wheels /src[live] /src/engine

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels kafkagroups[live] kafkagroups-engine

# A log of a broker belongs to the broker's user; reading it needs no rights of root where it is mounted readable.
USER nobody
ENTRYPOINT ["kafkagroups"]
