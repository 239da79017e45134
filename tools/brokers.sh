#!/bin/sh
# Fetches the jars that tests start into the user's cache: whole brokers (55 MB each), and the group coordinators of
# the other releases that tests/releases compares (17 MB each). You can repeat it: what is there is not fetched again.
# Without Maven it does nothing: tests that need these jars are then skipped, and the list at the end names them.
set -eu
cd "$(dirname "$0")/.."

command -v mvn >/dev/null || exit 0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kafkagroups

fetch() { # fetch FOLDER WHAT MAVEN-OPTION…
    folder=$cache/$1
    if [ -e "$folder/.complete" ]; then return 0; fi
    echo "fetching the jars of $2 into $folder"
    rm -rf "$folder"
    mkdir -p "$folder"
    shift 2
    if mvn -q -B "$@" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$folder"; then
        touch "$folder/.complete"
    else
        echo "    that failed: the tests that need these jars will be skipped"
    fi
}

for version in 3.9.2 4.3.1; do
    fetch "kafka-$version" "a Kafka $version broker" -f tests/broker/pom.xml -P "$version"
done
for version in 4.0.1 4.0.2 4.1.1 4.1.2 4.2.0 4.2.1 4.4.0; do
    fetch "coordinator-$version" "the group coordinator of Kafka $version" -f tests/releases/pom.xml "-Dkafka=$version" \
        -DexcludeArtifactIds=zstd-jni,snappy-java,lz4-java,jopt-simple
done
