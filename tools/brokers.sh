#!/bin/sh
# Fetches the jars of the brokers that tests start into the user's cache, once, 55 MB per version. Safe to repeat.
# Without Maven it does nothing. The tests that need a broker are then skipped, and the list of skipped tests has them.
set -eu
cd "$(dirname "$0")/.."

command -v mvn >/dev/null || exit 0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kafkagroups
for version in 3.9.2 4.3.1; do
    folder=$cache/kafka-$version
    if [ -e "$folder/.complete" ]; then continue; fi
    echo "fetching the jars of a Kafka $version broker into $folder, 55 MB"
    rm -rf "$folder"
    mkdir -p "$folder"
    if mvn -q -B -f tests/broker/pom.xml -P "$version" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$folder"; then
        touch "$folder/.complete"
    else
        echo "    that failed: the tests that start this broker will be skipped"
    fi
done
