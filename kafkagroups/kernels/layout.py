"""The arrays of a fold state: their columns, and the constants that all kernels share.

To fold a log means to apply its records, one after another, to a state. A fold state is the state of one log partition
after some batches: the newest commit of each key, and the pending commits of open transactions. A key is a group, a
topic and a partition, as in the key of an offset record. A fold state has these arrays:

slots       hash table of the keys, with open addressing. A slot is an int64: 31 bits of the key's hash (the tag), and
            the number of the key's entry. A free slot is -1
entries     8 int64 for each key, in one cache line of the CPU. An entry is a row of this array
extras      4 more int64 for each entry. The extras are seldom read, so they are not in the cache line of the entry
tombstones  1 int64 for each entry: the Kafka offset of the key's newest tombstone; -1 if the key has no tombstone
names       2 int64 for each name. A name is a key without its partition, so it is a group and a topic
name_slots  hash table of the names. A slot is an int64 as in `slots`, with the number of a name
arena       the bytes (uint8) of the names and of the metadata of commits
nodes       8 int64 for each node. A node is one pending commit, or one tombstone in a transaction. The nodes of a
            producer are a linked list, which begins with the newest node
node_extras 4 more int64 for each node, with the columns of `extras`
producers   hash table of the producers with open transactions. A row has 6 int64
counts      how many rows of these arrays are used, and other counts
rules       how the coordinator reads records, and where reading stops
secret      2 uint64, which are part of every hash (secret.py)

A load needs only these arrays. If the engine also follows fates (fates.py), it uses these arrays too; in a load, they
have no columns or no rows:

key_records   8 more int64 for each entry: the record of the key's committed offset
node_records  8 more int64 for each node: the record of the node
name_totals   6 int64 for each name: how many records and bytes were read
segments      2 int64 for each segment of the log: bytes on disk, and bytes of replaced records
transactions  hash table of the open transactions. A row has 5 int64
kinds         5 int64 for each kind of offset record: an example of a record of this kind
disk_sizes    1 int64 for each batch of a decompressed run: the size of the batch on disk
fates, by     the fate (uint8) of each record, and the offset (int64) of the record that decided the fate

A text reference is an int64 that says where bytes are in the arena: `start << SIZE_BITS | size`. `start` is a position
in the arena, and `size` is a number of bytes. The text reference of an empty text is 0. The bytes of a name are: the
size of the group id (int16), the group id, the size of the topic name (int16), the topic name.
"""

from __future__ import annotations

from typing import Any, NamedTuple

(
    NEWEST_VALUE_OFFSET,
    NAME_AND_PARTITION,
    COMMITTED_OFFSET,
    RECORD_OFFSET,
    BATCH_OFFSET,
    COMMIT_TIME,
    METADATA,
    EPOCH_AND_FLAGS,
) = range(8)
"""The columns of an entry (a row of `entries`).

NEWEST_VALUE_OFFSET: the Kafka offset of the key's newest record that has a value (-1: all records are tombstones).
NAME_AND_PARTITION: `name << PARTITION_BITS | partition`, where `name` is the number of a row in `names`.
COMMITTED_OFFSET: the offset that the group has committed. RECORD_OFFSET: the Kafka offset of the commit's record (-1:
the key has no committed offset). BATCH_OFFSET: the Kafka offset of the first record in the batch of the commit.
COMMIT_TIME: the commit timestamp in ms. METADATA: a text reference. EPOCH_AND_FLAGS: the leader epoch in the lower 32
bits, and flags above these bits.
"""
NAME_TEXT, NAME_HASH = range(2)
"""The columns of a name: the text reference of its bytes, and the hash of these bytes."""
NUMBER, IS_USED = range(2)
"""The first two columns of a hash table of numbers (hash_table.py): a producer id, and 1 if the row is used."""
NEXT_NODE, ENTRY = range(2)
"""The first two columns of a node: the number of the next node in the list (-1: this node is the last one), and the
number of the key's entry.

For a tombstone in a transaction of the classic coordinator, ENTRY is `~n`, where `n` is the number of the entry. The
node of this tombstone cancels the older pending commits of the key in the same list. The other columns of a node are
those of an entry.
"""
(
    FIRST_NODE,
    PRODUCER_WALK,
    PRODUCER_NEWER_OFFSET,
    PRODUCER_NEWER_SEGMENT,
) = range(2, 6)
"""The columns of `producers` after NUMBER and IS_USED.

FIRST_NODE: the number of the first node in the producer's list (-1: the producer has no pending commit). The other
columns are used while the list of a key's nodes is walked (`delete_offsets` in fates.py).
"""
PRODUCER_COLUMNS = 6
HAS_EXPIRE = 1 << 32
HAS_TOPIC_ID = 1 << 33
"""The flags in EPOCH_AND_FLAGS: whether the commit has an expire timestamp, and whether it has a topic id."""
EXPIRE_TIME, TOPIC_ID_FIRST_HALF, TOPIC_ID_LAST_HALF, LAST_MARKER = range(4)
"""The columns of `extras` and `node_extras`.

EXPIRE_TIME: the expire timestamp in ms. TOPIC_ID_FIRST_HALF and TOPIC_ID_LAST_HALF: 8 bytes each of the topic id.
LAST_MARKER: the number of the last transaction marker that committed or aborted a commit of the key; nodes do not use
this column.
"""

COUNTS = range(21)
(
    ENTRIES,
    ARENA_BYTES,
    NODES,
    FREE_NODE,
    PRODUCERS,
    BATCHES,
    RECORDS,
    NEXT_OFFSET,
    OTHER_RECORDS,
    UNUSED_BYTES,
    MARKERS,
    NAMES,
    SEGMENT,
    RUN_START,
    DISK_BYTES,
    FIRST_TIME,
    LATEST_TIME,
    CONTROL_RECORDS,
    CONTROL_BYTES,
    TRANSACTIONS,
    WALKS,
) = COUNTS
"""The elements of the array `counts`.

ENTRIES, NODES, PRODUCERS and NAMES: the number of used rows of `entries`, `nodes`, `producers` and `names`.
ARENA_BYTES: the number of used bytes of the arena. FREE_NODE: the number of the first node in the list of free nodes
(-1: the list is empty). BATCHES and RECORDS: how many batches and records were folded. NEXT_OFFSET: the Kafka offset
after the last batch. OTHER_RECORDS: the number of used rows of `record_positions`. UNUSED_BYTES: the number of bytes in
the arena that no text reference refers to. MARKERS: how many transaction markers were applied.

Only if the engine follows fates: SEGMENT: the number of the current segment. RUN_START: what BATCHES was before the
decompressed run. DISK_BYTES: the size of all batches on disk. FIRST_TIME and LATEST_TIME: the smallest and the largest
timestamp of a record, in ms. CONTROL_RECORDS and CONTROL_BYTES: the number and the bytes of control records; the bytes
include batches without records. TRANSACTIONS: the number of used rows of `transactions`. WALKS: how many lists of nodes
were walked (supersede_pending).
"""
(
    OTHER_OFFSET,
    OTHER_KEY_START,
    OTHER_KEY_SIZE,
    OTHER_VALUE_START,
    OTHER_VALUE_SIZE,
    OTHER_NUMBER,
    OTHER_BYTES,
) = range(7)
"""The columns of `record_positions`, which has a row for each record that is not an offset record.

OTHER_OFFSET is the Kafka offset of the record. The next four columns are the positions and the sizes in bytes of the
record's key and value in the bytes of the segment. OTHER_VALUE_SIZE is -1 for a tombstone. OTHER_NUMBER and OTHER_BYTES
are the same as RECORD_NUMBER and RECORD_BYTES.
"""
OTHER_COLUMNS = 7
(
    IS_CLASSIC,
    MAX_OFFSET_VERSION,
    MAX_TYPE0_VERSION,
    KEEPS_TOPIC_IDS,
    LAST_OFFSET,
    LAST_TIME,
    CHECKS_CRC,
    NEEDS_MARKER,
    MAX_BATCH_SIZE,
    MAX_BATCH_RECORDS,
    FOLLOWS_FATES,
    KEEPS_EACH_FATE,
    RULE_COUNT,
) = range(13)
"""The elements of the array `rules`: how the coordinator of a Kafka version reads, and where reading stops.

IS_CLASSIC: 1 for the classic coordinator, 0 for the new coordinator. MAX_OFFSET_VERSION and MAX_TYPE0_VERSION: the
newest value version that the coordinator reads, for offset records of type 1 and of type 0. KEEPS_TOPIC_IDS: 1 if the
coordinator keeps the topic id of a commit. LAST_OFFSET and LAST_TIME: the highest base offset and the highest timestamp
(in ms) before the stop (log/stop.py). Without a stop both are the highest int64, so no batch is above them. CHECKS_CRC:
1 if checksums are compared. NEEDS_MARKER: 1 if the load fails when a control batch contains no record. MAX_BATCH_SIZE
and MAX_BATCH_RECORDS: the largest number of bytes and of records of a batch that this engine reads. FOLLOWS_FATES: 1 if
the engine follows fates (fates.py). KEEPS_EACH_FATE: 1 if it also keeps the fate of each record. RULE_COUNT is the
number of rules.
"""

GROUP_TEXT, GROUP_NEWEST_VALUE_OFFSET, LIVE_KEYS = range(3)
"""The columns of `groups`, an array with a row for each group. The array is made when the folded offsets are read.

GROUP_TEXT: the text reference of the group id. GROUP_NEWEST_VALUE_OFFSET: the Kafka offset of the group's newest offset
record that has a value (-1: the group has only tombstones). LIVE_KEYS: how many keys of the group have a committed
offset.
"""

OK, NO_SPACE, HAND_OVER, STOPPED, COMPRESSED, PAUSED, NEEDS_MORE_BYTES, HAS_BATCH = range(8)
"""The status that a kernel returns.

OK: everything was read. NO_SPACE: an array is full and must grow first. HAND_OVER: the readable engine must load this
log. STOPPED: the stop (log/stop.py) excludes the next batch. COMPRESSED: the next batch is compressed, and its checksum
is correct. PAUSED: the kernel has read as many bytes as the caller asked for. NEEDS_MORE_BYTES: the given bytes end
inside a batch. HAS_BATCH: a batch can be read.
"""

KEY_HASH, NAME_START, NAME_SIZE, VALUE_START, VALUE_SIZE, OFFSET, FIRST_OFFSET, PRODUCER_ID = range(8)
"""The columns of a block. A block is an array of offset records that were read but not folded; each row is one record.

KEY_HASH: the hash of the record's key. NAME_START and VALUE_START: positions in the bytes of the segment. NAME_SIZE:
the size of the name in bytes; negative if the previous row has the same name. VALUE_SIZE: the size of the value in
bytes; -1 for a tombstone. OFFSET: the Kafka offset of the record. FIRST_OFFSET: the Kafka offset of the first record in
the batch. PRODUCER_ID: the producer id of the batch; NO_TRANSACTION if the record is not in a transaction.
"""
BLOCK_NUMBER, BLOCK_BYTES, BLOCK_IS_TRANSACTIONAL = range(3)
"""The columns of `block_records`, which has a row for each row of a block. It is used only if the engine follows fates.

BLOCK_NUMBER and BLOCK_BYTES are the same as RECORD_NUMBER and RECORD_BYTES. BLOCK_IS_TRANSACTIONAL: 1 if the batch has
the transactional bit.
"""
NO_TRANSACTION = -(1 << 62)
BLOCK_ROWS = 512
"""The number of rows in a block. The rows are folded together, so that the CPU can load memory for several rows at the
same time."""
PREFETCH_DISTANCE = 12
"""Kernels let the CPU start to load a slot, an entry or a name this many rows before they read it."""

RECORD_NUMBER, RECORD_BYTES, RECORD_SEGMENT, RECORD_TYPE = range(4)
"""The first columns of `key_records` and `node_records`.

RECORD_NUMBER: how many records of the log come before this record. RECORD_BYTES: how many bytes of the batch on disk
belong to the record. RECORD_SEGMENT: the number of the segment. RECORD_TYPE: 0 or 1.
"""
FIRST_NODE_OF_KEY, WALK, NEWER_OFFSET, NEWER_SEGMENT = range(4, 8)
"""The other columns of `key_records`.

FIRST_NODE_OF_KEY: 1 plus the number of the newest node of the key in the list of all producers' nodes (0: no node; only
the new coordinator). WALK, NEWER_OFFSET and NEWER_SEGMENT are used while a list of nodes is walked
(supersede_pending).
"""
PREVIOUS_NODE_OF_KEY, NEXT_NODE_OF_KEY, NODE_PRODUCER, IS_SETTLED = range(4, 8)
"""The other columns of `node_records`.

PREVIOUS_NODE_OF_KEY and NEXT_NODE_OF_KEY: 1 plus the number of the newer and of the older node of the same key (0: no
node; only the new coordinator). NODE_PRODUCER: the producer id. IS_SETTLED: 1 if the fate of the record is decided.
"""
RECORD_COLUMNS = 8
TOTAL_RECORDS, TOTAL_BYTES, TOTAL_TOMBSTONES = range(3)
"""The columns of `name_totals` for offset records of type 0. The next three columns are for type 1."""
TOTAL_COLUMNS = 3
SEGMENT_BYTES, REPLACED_BYTES, TRACE_END, TRACE_HORIZON, TRACE_NEWEST = range(5)
"""The columns of `segments`.

SEGMENT_BYTES: the size of the segment's batches on disk. REPLACED_BYTES: the size of records that another record of the
same key, or a marker, has replaced. A record counts for the later one of the two records' segments. TRACE_END,
TRACE_HORIZON and TRACE_NEWEST: the fields of `Traces` (history/cleaning_traces.py).
"""
SEGMENT_COLUMNS = 5
OPEN_FIRST_OFFSET, OPEN_TIME, IS_OPEN = range(2, 5)
"""The columns of `transactions` after NUMBER and IS_USED: the base offset of the transaction's first batch, the
timestamp of the first record of this batch, and 1 if the transaction is open."""
TRANSACTION_COLUMNS = 5
KIND_IS_SEEN, KIND_KEY_START, KIND_KEY_SIZE, KIND_VALUE_START, KIND_VALUE_SIZE = range(5)
"""The columns of `kinds`: 1 if the kind was seen, and where the key and the value of its first record are."""
TOMBSTONE_KIND = 5
KIND_COUNT = 6 * 32
"""How many kinds of offset records exist (find_kind in fates.py). TOMBSTONE_KIND stands for the value version."""
(
    UNDECIDED,
    WINS,
    SUPERSEDED,
    DELETED,
    HIDDEN,
    ABORTED,
    PENDING,
    TOMBSTONE,
    MARKER,
    IGNORED,
) = range(10)
"""The numbers of fates in `fates`. Except for UNDECIDED, they are 1 plus the position in the enum `Fate`."""
NO_RECORD = -1
"""The content of `by` if no other record decided the fate."""

LAST_OFFSET_DELTA_POSITION = 23
BASE_TIMESTAMP_POSITION = 27
MAX_TIMESTAMP_POSITION = 35
PRODUCER_ID_POSITION = 43
RECORD_COUNT_POSITION = 57
"""Positions in the header of a batch. The other positions are in log/frames.py and log/record_batch.py."""

COMMIT = 1
ABORT = 0
"""The types of a transaction marker, as in the key of its record."""
SIZE_BITS = 20
SIZE_MASK = (1 << SIZE_BITS) - 1
"""The bits of a text reference that are the size."""
TAG_SHIFT = 32
ENTRY_MASK = (1 << 31) - 1
"""A slot is `tag << TAG_SHIFT | number`. ENTRY_MASK selects the number of the entry or of the name."""
PARTITION_BITS = 32
PARTITION_MASK = (1 << PARTITION_BITS) - 1
"""The bits of NAME_AND_PARTITION that are the partition."""


class Tables(NamedTuple):
    """The arrays of a fold state, as one argument of the kernels. The module's docstring describes the arrays."""

    rules: Any
    counts: Any
    slots: Any
    entries: Any
    extras: Any
    tombstones: Any
    names: Any
    name_slots: Any
    arena: Any
    nodes: Any
    node_extras: Any
    producers: Any
    secret: Any
    key_records: Any
    node_records: Any
    name_totals: Any
    segments: Any
    transactions: Any
    kinds: Any
    disk_sizes: Any
    fates: Any
    by: Any
