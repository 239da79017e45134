#!/bin/sh
# Fetches the jars that tests start into the user's cache: whole brokers (55 MB each), and the group coordinators of
# the other releases that tests/releases compares (17 MB each). You can repeat it: what is there is not fetched again.
# With a version, it fetches only the jars of this version: tools/brokers.sh 4.3.1
# Without Maven it fetches nothing and says so. Tests that need these jars are then skipped, and the list at their end
# names them.
set -eu
cd "$(dirname "$0")/.."

brokers="3.9.2 4.3.1"
coordinators="4.0.1 4.0.2 4.1.1 4.1.2 4.2.0 4.2.1 4.2.2 4.4.0"
if [ ! -e tests/releases/pom.xml ]; then coordinators=""; fi # The copy for a workshop has no tests.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kafkagroups

fetch() { # fetch FOLDER WHAT MAVEN-OPTION…
    folder=$cache/$1
    if [ -e "$folder/.complete" ]; then return 0; fi
    if ! command -v mvn >/dev/null; then
        echo "Maven is missing, so the jars of $2 cannot be fetched. Install the program mvn (apt install maven, or brew install maven)."
        exit 0
    fi
    echo "fetching the jars of $2 into $folder"
    rm -rf "$folder"
    mkdir -p "$folder"
    shift 2
    if mvn -q -B "$@" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$folder"; then
        touch "$folder/.complete"
    else
        echo "    that failed: what needs these jars is skipped"
    fi
}

fetch_broker() {
    fetch "kafka-$1" "a Kafka $1 broker" -f tests/broker/pom.xml -P "$1"
}

fetch_coordinator() {
    fetch "coordinator-$1" "the group coordinator of Kafka $1" -f tests/releases/pom.xml "-Dkafka=$1" \
        -DexcludeArtifactIds=zstd-jni,snappy-java,lz4-java,jopt-simple
}

wanted=${1:-}
found=
for version in $brokers; do
    if [ "${wanted:-$version}" = "$version" ]; then found=1; fetch_broker "$version"; fi
done
for version in $coordinators; do
    if [ "${wanted:-$version}" = "$version" ]; then found=1; fetch_coordinator "$version"; fi
done
if [ -z "$found" ]; then
    echo "KAFKA=$wanted: there are no jars of this version. The versions are: $brokers $coordinators" >&2
    exit 2
fi
