import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.Time;

/**
 * Loads sequences of records with one release's own group coordinator, and prints what it then holds.
 *
 * Input: one JSON object per line, {"id": ..., "records": [...]}. A record is
 * ["record", offset, producer id, producer epoch, key hex or null, value hex or null] or
 * ["commit" or "abort", offset, producer id, producer epoch].
 * Output: one line per line of input, {"id", "failure", "groups", "offsets", "pending"}. "failure" is null or
 * {"offset", "class", "message"}; the offset is null if the load fails after the last record.
 *
 * The classes have other packages and constructors in each release, so this file reaches them by reflection. It does
 * what CoordinatorLoaderImpl does with a log: deserialize each record, skip the types that the serde does not know,
 * GroupCoordinatorShard.replay, replayEndTransactionMarker, and onLoaded at the end.
 */
public class Replay {
    private static final PrintStream OUT = takeStandardOutput();
    private static final String GROUP = "org.apache.kafka.coordinator.group.";
    private static final String COMMON = "org.apache.kafka.coordinator.common.runtime.";
    private static final List<String> UNIMPORTANT =
        List.of("prev", "next", "log", "metrics", "snapshotRegistry", "time", "_unknownTaggedFields");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Object LOG_CONTEXT =
        create(find("org.apache.kafka.common.utils.LogContext", "org.apache.kafka.common.utils.internals.LogContext"));
    private static final Object METRICS = create(find(GROUP + "metrics.GroupCoordinatorMetrics"));
    private static final Object SERDE =
        create(find(GROUP + "GroupCoordinatorRecordSerde", GROUP + "CoordinatorRecordSerde", GROUP + "RecordSerde"));
    private static final AbstractConfig SETTINGS = settings();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            Map<String, Object> answer = load(request.get("records"));
            answer.put("id", request.get("id"));
            OUT.println(JSON.writeValueAsString(answer));
            OUT.flush();
        }
    }

    /** Returns the standard output for the answers alone. Kafka's logging goes to the standard error. */
    private static PrintStream takeStandardOutput() {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        return out;
    }

    private static Map<String, Object> load(JsonNode records) throws Exception {
        Object shard = newShard();
        Map<String, Object> answer = new LinkedHashMap<>();
        Long offset = null;
        try {
            for (JsonNode record : records) {
                offset = record.get(1).asLong();
                replay(shard, record);
            }
            offset = null;
            invoke(shard, "onLoaded", emptyImage(shard));
        } catch (InvocationTargetException wrapped) {
            Throwable failure = wrapped.getCause();
            Map<String, Object> shown = new LinkedHashMap<>();
            shown.put("offset", offset);
            shown.put("class", failure.getClass().getSimpleName());
            shown.put("message", failure.getMessage());
            answer.put("failure", shown);
            return answer;
        }
        answer.put("failure", null);
        Object offsets = field(shard, "offsetMetadataManager");
        answer.put("groups", groups(field(field(shard, "groupMetadataManager"), "groups")));
        answer.put("offsets", show(field(field(offsets, "offsets"), "offsetsByGroup")));
        Map<String, Object> pending = new LinkedHashMap<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) field(offsets, "pendingTransactionalOffsets")).entrySet()) {
            pending.put(entry.getKey().toString(), show(field(entry.getValue(), "offsetsByGroup")));
        }
        answer.put("pending", pending);
        return answer;
    }

    private static void replay(Object shard, JsonNode record) throws Exception {
        long producerId = record.get(2).asLong();
        short producerEpoch = (short) record.get(3).asInt();
        String kind = record.get(0).asText();
        if (!kind.equals("record")) {
            TransactionResult result = kind.equals("commit") ? TransactionResult.COMMIT : TransactionResult.ABORT;
            invoke(shard, "replayEndTransactionMarker", producerId, producerEpoch, result);
            return;
        }
        Object decoded;
        try {
            decoded = invoke(SERDE, "deserialize", buffer(record.get(4)), buffer(record.get(5)));
        } catch (InvocationTargetException wrapped) {
            if (wrapped.getCause().getClass().getSimpleName().equals("UnknownRecordTypeException")) {
                return;
            }
            throw wrapped;
        }
        invoke(shard, "replay", record.get(1).asLong(), producerId, producerEpoch, decoded);
    }

    private static ByteBuffer buffer(JsonNode hex) {
        return hex.isNull() ? null : ByteBuffer.wrap(HexFormat.of().parseHex(hex.asText()));
    }

    private static Object newShard() throws Exception {
        Object config = create(find(GROUP + "GroupCoordinatorConfig"));
        Class<?> kind = find(GROUP + "GroupCoordinatorShard$Builder");
        Object builder = create(kind, config);
        Object registry = create(find("org.apache.kafka.timeline.SnapshotRegistry"), LOG_CONTEXT);
        for (Method method : kind.getMethods()) {
            if (method.getName().startsWith("with")) {
                method.setAccessible(true);
                method.invoke(builder, supply(method.getParameterTypes()[0], registry));
            }
        }
        Method build = kind.getMethod("build");
        build.setAccessible(true);
        return build.invoke(builder);
    }

    /** Returns an argument of that type: one of the given objects, or one that does nothing. */
    private static Object supply(Class<?> type, Object... given) {
        for (Object candidate : given) {
            if (type.isInstance(candidate)) {
                return candidate;
            }
        }
        for (Object candidate : List.of(LOG_CONTEXT, METRICS, SETTINGS, Time.SYSTEM)) {
            if (type.isInstance(candidate)) {
                return candidate;
            }
        }
        if (type == Optional.class) {
            return Optional.empty();
        }
        if (type == TopicPartition.class) {
            return new TopicPartition("__consumer_offsets", 0);
        }
        if (Map.class.isAssignableFrom(type)) {
            return Collections.emptyMap();
        }
        if (type.isInterface()) {
            return Proxy.newProxyInstance(Replay.class.getClassLoader(), new Class<?>[] {type}, Replay::answerNothing);
        }
        return create(type, given);
    }

    private static Object answerNothing(Object proxy, Method method, Object[] arguments) {
        if (method.getReturnType() == boolean.class) {
            return method.getName().equals("schedule");
        }
        return method.getReturnType() == int.class ? 0 : null;
    }

    /** Creates an object with its shortest public constructor. */
    private static Object create(Class<?> type, Object... given) {
        try {
            Constructor<?> shortest = null;
            for (Constructor<?> constructor : type.getConstructors()) {
                if (shortest == null || constructor.getParameterCount() < shortest.getParameterCount()) {
                    shortest = constructor;
                }
            }
            Class<?>[] types = shortest.getParameterTypes();
            Object[] arguments = new Object[types.length];
            for (int i = 0; i < types.length; i++) {
                arguments[i] = supply(types[i], given);
            }
            return shortest.newInstance(arguments);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("cannot create a " + type.getName(), error);
        }
    }

    private static AbstractConfig settings() {
        ConfigDef all = new ConfigDef();
        String[] owners = {"GroupCoordinatorConfig", "ShareGroupConfig", "modern.share.ShareGroupConfig"};
        for (String owner : owners) {
            try {
                for (Field field : Class.forName(GROUP + owner).getDeclaredFields()) {
                    if (field.getType() == ConfigDef.class && Modifier.isStatic(field.getModifiers())) {
                        field.setAccessible(true);
                        for (ConfigDef.ConfigKey key : ((ConfigDef) field.get(null)).configKeys().values()) {
                            if (!all.names().contains(key.name)) {
                                all.define(key);
                            }
                        }
                    }
                }
            } catch (ClassNotFoundException absent) {
                // This release has no such class.
            } catch (IllegalAccessException error) {
                throw new IllegalStateException(error);
            }
        }
        for (String missing : List.of("node.id", "broker.id")) {
            all.define(missing, ConfigDef.Type.INT, 1, ConfigDef.Importance.LOW, "");
        }
        return new AbstractConfig(all, Map.of(), false);
    }

    private static Object emptyImage(Object shard) throws ReflectiveOperationException {
        for (Method method : shard.getClass().getMethods()) {
            if (method.getName().equals("onLoaded")) {
                return method.getParameterTypes()[0].getField("EMPTY").get(null);
            }
        }
        throw new NoSuchMethodException("onLoaded");
    }

    private static Map<String, Object> groups(Object known) throws Exception {
        Map<String, Object> shown = new LinkedHashMap<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) known).entrySet()) {
            Object group = entry.getValue();
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("type", invoke(group, "type").toString());
            fields.put("stateAsString", invoke(group, "stateAsString"));
            for (Method method : group.getClass().getMethods()) {
                boolean plain = method.getParameterCount() == 0;
                if (plain && List.of("preferredServerAssignor", "isSimpleGroup").contains(method.getName())) {
                    fields.put(method.getName(), show(method.invoke(group)));
                }
            }
            fields.putAll(fieldsOf(group));
            shown.put((String) entry.getKey(), fields);
        }
        return shown;
    }

    /** Returns a value as JSON: collections element by element, Kafka's own objects field by field. */
    private static Object show(Object value) throws Exception {
        if (value == null || value instanceof String || value instanceof Number || value instanceof Boolean) {
            return value;
        }
        if (value instanceof Optional) {
            return show(((Optional<?>) value).orElse(null));
        }
        if (value instanceof OptionalInt) {
            return ((OptionalInt) value).isPresent() ? ((OptionalInt) value).getAsInt() : null;
        }
        if (value instanceof OptionalLong) {
            return ((OptionalLong) value).isPresent() ? ((OptionalLong) value).getAsLong() : null;
        }
        if (value instanceof byte[]) {
            return HexFormat.of().formatHex((byte[]) value);
        }
        if (value instanceof Uuid || value instanceof Enum) {
            return value.toString();
        }
        if (value instanceof Map) {
            Map<String, Object> shown = new LinkedHashMap<>();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                shown.put(String.valueOf(entry.getKey()), show(entry.getValue()));
            }
            return shown;
        }
        if (value instanceof Collection) {
            List<Object> shown = new ArrayList<>();
            for (Object element : (Collection<?>) value) {
                shown.add(show(element));
            }
            return shown;
        }
        Class<?> type = value.getClass();
        if (type.getName().startsWith("org.apache.kafka.timeline.Timeline")) {
            Method get = type.getMethod("get");
            get.setAccessible(true);
            return show(get.invoke(value));
        }
        if (type.getName().startsWith(GROUP) || type.getName().startsWith("org.apache.kafka.common.message.")) {
            return fieldsOf(value);
        }
        return "a " + type.getName();
    }

    private static Map<String, Object> fieldsOf(Object value) throws Exception {
        Map<String, Object> shown = new LinkedHashMap<>();
        for (Class<?> type = value.getClass(); type != Object.class; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                boolean isOuter = field.isSynthetic() || Modifier.isStatic(field.getModifiers());
                if (!isOuter && !UNIMPORTANT.contains(field.getName())) {
                    field.setAccessible(true);
                    shown.putIfAbsent(field.getName(), show(field.get(value)));
                }
            }
        }
        return shown;
    }

    private static Object field(Object owner, String name) throws ReflectiveOperationException {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    /** Calls a method by its name and number of arguments. Bridge methods are left out. */
    private static Object invoke(Object target, String name, Object... arguments)
        throws ReflectiveOperationException {
        for (Class<?> type = target.getClass(); type != null; type = type.getSuperclass()) {
            for (Method method : type.getDeclaredMethods()) {
                boolean fits = method.getName().equals(name) && method.getParameterCount() == arguments.length;
                if (fits && !method.isBridge()) {
                    method.setAccessible(true);
                    return method.invoke(target, arguments);
                }
            }
        }
        throw new NoSuchMethodException(target.getClass() + "." + name + Arrays.toString(arguments));
    }

    private static Class<?> find(String... names) {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException absent) {
                // Another release has the class under this name.
            }
        }
        throw new IllegalStateException("no class " + String.join(" or ", names));
    }
}
