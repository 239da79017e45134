import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Runs one pass of the log cleaner of Kafka 4.3.1 for each line on stdin: the time of the pass in ms, a space, and the
 * folder of a partition. The pass has the settings of a broker, without a limit of its speed. It cleans all segments
 * except the last one, and changes the folder.
 *
 * After each pass it prints a line: "pass", the seconds of the pass without the opening of the log, and the CPU seconds
 * of the cleaner's thread.
 */
public class Cleaner {
    static final long DAY = 86_400_000;

    public static void main(String[] none) throws Exception {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        SkimpyOffsetMap map = new SkimpyOffsetMap(128 * 1024 * 1024);
        Throttler throttler = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM);
        int buffer = 512 * 1024 / 2;
        var cleaner = new org.apache.kafka.storage.internals.log.Cleaner(
            0, map, buffer, 1_000_012, 0.9, throttler, Time.SYSTEM, partition -> {});
        Properties properties = new Properties();
        properties.put("cleanup.policy", "compact");
        properties.put("segment.bytes", "104857600");
        LogConfig config = new LogConfig(properties);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            long now = Long.parseLong(line.substring(0, line.indexOf(' ')));
            String folder = line.substring(line.indexOf(' ') + 1);
            UnifiedLog log = UnifiedLog.create(
                new File(folder), config, 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM, 300_000,
                new ProducerStateManagerConfig((int) DAY, false), 600_000, new LogDirFailureChannel(10), true,
                Optional.empty());
            log.updateHighWatermark(log.logEndOffset());
            LogToClean whole = new LogToClean(log, 0, log.activeSegment().baseOffset(), true);
            long start = System.nanoTime();
            long cpuStart = threads.getCurrentThreadCpuTime();
            cleaner.doClean(whole, now);
            long end = System.nanoTime();
            System.out.println("pass " + (end - start) / 1e9 + " " + (threads.getCurrentThreadCpuTime() - cpuStart) / 1e9);
            log.close();
        }
        System.exit(0);
    }
}
