import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;

/**
 * Loads a topic's folder with the classes of Kafka 3.9.2: its records, its generated readers of keys and values, and
 * Java's maps. It follows the classic loader's rule, including transactions. It reads segments in pieces of 5 MiB, the
 * default of a broker. It does not check checksums, because a broker does not check them when it loads.
 *
 * It loads once for every line on stdin, and prints the seconds and the number of live offsets.
 */
public class Loader {
    record Key(String group, String topic, int partition) {}

    /** A commit, and the first offset of its batch. Of two commits, the one in the later batch is newer. */
    record Commit(OffsetCommitValue value, long batch) {}

    static final int PIECE = 5 * 1024 * 1024;

    private final Map<Key, Commit> offsets = new HashMap<>();
    private final Map<String, GroupMetadataValue> groups = new HashMap<>();
    private final Set<String> removed = new HashSet<>();
    private final Map<Long, Map<Key, Commit>> pending = new HashMap<>();
    private ByteBuffer buffer = ByteBuffer.allocate(PIECE);

    public static void main(String[] folder) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        while (input.readLine() != null) {
            long start = System.nanoTime();
            long live = 0;
            List<Map<Key, Commit>> all = new ArrayList<>();
            for (File partition : sorted(new File(folder[0]))) {
                Loader loader = new Loader();
                for (File segment : sorted(partition)) loader.read(segment);
                all.add(loader.offsets);
            }
            long end = System.nanoTime();
            for (Map<Key, Commit> of : all) live += of.size();
            System.out.println((end - start) / 1e9 + " " + live);
        }
    }

    static File[] sorted(File folder) {
        File[] files = folder.listFiles();
        Arrays.sort(files);
        return files;
    }

    void read(File segment) throws IOException {
        try (FileRecords file = FileRecords.open(segment, false)) {
            int at = 0;
            while (at < file.sizeInBytes()) {
                buffer.clear();
                file.readInto(buffer, at);
                MemoryRecords records = MemoryRecords.readableRecords(buffer);
                int size = records.validBytes();
                if (size == 0) { // The batch is larger than the buffer.
                    if (buffer.limit() < buffer.capacity()) return;
                    buffer = ByteBuffer.allocate(2 * buffer.capacity());
                    continue;
                }
                for (RecordBatch batch : records.batches()) read(batch);
                at += size;
            }
        }
    }

    void read(RecordBatch batch) {
        if (batch.isControlBatch()) {
            for (Record record : batch) {
                Map<Key, Commit> waiting = pending.remove(batch.producerId());
                if (waiting == null || ControlRecordType.parse(record.key()) != ControlRecordType.COMMIT) continue;
                waiting.forEach((key, commit) -> {
                    Commit current = offsets.get(key);
                    if (current == null || current.batch() < commit.batch()) offsets.put(key, commit);
                });
            }
            return;
        }
        Map<Key, Commit> target =
            batch.isTransactional() ? pending.computeIfAbsent(batch.producerId(), id -> new HashMap<>()) : offsets;
        Long first = null; // The first record of a compacted batch can be later than the base offset.
        for (Record record : batch) {
            if (first == null) first = record.offset();
            ByteBufferAccessor key = new ByteBufferAccessor(record.key());
            short type = key.readShort();
            if (type <= 1) {
                OffsetCommitKey name = new OffsetCommitKey(key, type);
                Key full = new Key(name.group(), name.topic(), name.partition());
                if (record.hasValue()) {
                    ByteBufferAccessor value = new ByteBufferAccessor(record.value());
                    target.put(full, new Commit(new OffsetCommitValue(value, value.readShort()), first));
                } else {
                    target.remove(full);
                }
            } else if (type == 2) {
                String group = new GroupMetadataKey(key, type).group();
                if (record.hasValue()) {
                    ByteBufferAccessor value = new ByteBufferAccessor(record.value());
                    removed.remove(group);
                    groups.put(group, new GroupMetadataValue(value, value.readShort()));
                } else {
                    groups.remove(group);
                    removed.add(group);
                }
            }
        }
    }
}
