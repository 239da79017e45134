import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Base64;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Writes every record of a topic that a consumer with isolation.level=read_committed gets, a line for each; before them
 * the last stable offset of each partition, where such a consumer stops.
 */
class ReadRows {
    static String encode(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0], "isolation.level", "read_committed", "enable.auto.commit", false);
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes);
                var out = Files.newBufferedWriter(Path.of(arguments[2]))) {
            var partitions = consumer.partitionsFor(arguments[1]).stream()
                    .map(info -> new TopicPartition(info.topic(), info.partition())).toList();
            var ends = consumer.endOffsets(partitions);
            for (var each : partitions) {
                out.write(each.partition() + "\t" + ends.get(each) + "\n");
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    out.write(String.join("\t", String.valueOf(record.partition()), String.valueOf(record.offset()),
                            String.valueOf(record.timestamp()), encode(record.key()), encode(record.value())) + "\n");
                }
            }
        }
    }
}
