/*
 * Open addressing over arrays of atomics. A full array is replaced by one twice as large; the old
 * one stays until the table is freed, because a reader may still be in it: all old ones together
 * are smaller than the newest.
 */
#include "metad/store/bucket_table.h"

#include <stdatomic.h>
#include <stddef.h>

#include "common/base/assert.h"
#include "common/base/mem.h"

enum { TABLE_SLOTS_MIN = 64 };

struct bucket_slot {
    _Atomic uint64_t id;   /* 0: free */
    _Atomic uint64_t word; /* generation, above one bit: versioned */
};

struct bucket_slots {
    struct bucket_slots *older;
    size_t capacity; /* a power of two */
    size_t used;
    struct bucket_slot slots[];
};

struct bucket_table {
    struct bucket_slots *_Atomic current;
};

static struct bucket_slots *slots_new(size_t capacity, struct bucket_slots *older)
{
    struct bucket_slots *slots = mem_alloc(sizeof(*slots) + capacity * sizeof(slots->slots[0]));

    slots->capacity = capacity;
    slots->older = older;
    return slots;
}

struct bucket_table *bucket_table_new(void)
{
    struct bucket_table *table = mem_alloc(sizeof(*table));

    atomic_init(&table->current, slots_new(TABLE_SLOTS_MIN, NULL));
    return table;
}

void bucket_table_free(struct bucket_table *table)
{
    struct bucket_slots *slots = atomic_load(&table->current);

    while (slots != NULL) {
        struct bucket_slots *older = slots->older;

        mem_free(slots);
        slots = older;
    }
    mem_free(table);
}

/* The slot of the id, or the free one where it would go. */
static size_t slot_of(const struct bucket_slots *slots, uint64_t bucket_id)
{
    size_t at = (size_t)(bucket_id * 0x9e3779b97f4a7c15ULL) & (slots->capacity - 1);

    for (;;) {
        uint64_t id = atomic_load_explicit(&slots->slots[at].id, memory_order_acquire);

        if (id == bucket_id || id == 0) {
            return at;
        }
        at = (at + 1) & (slots->capacity - 1);
    }
}

static void slots_set(struct bucket_slots *slots, uint64_t bucket_id, uint64_t word)
{
    struct bucket_slot *slot = &slots->slots[slot_of(slots, bucket_id)];

    atomic_store_explicit(&slot->word, word, memory_order_release);
    if (atomic_load_explicit(&slot->id, memory_order_relaxed) == 0) {
        slots->used += 1;
        atomic_store_explicit(&slot->id, bucket_id, memory_order_release);
    }
}

static struct bucket_slots *slots_grown(struct bucket_slots *old)
{
    struct bucket_slots *slots = slots_new(old->capacity * 2, old);

    for (size_t i = 0; i < old->capacity; i++) {
        uint64_t id = atomic_load(&old->slots[i].id);
        uint64_t word = atomic_load(&old->slots[i].word);

        if (id != 0 && word != 0) {
            slots_set(slots, id, word);
        }
    }
    return slots;
}

void bucket_table_set(struct bucket_table *table, uint64_t bucket_id, uint64_t generation,
                      bool versioned)
{
    struct bucket_slots *slots = atomic_load(&table->current);
    uint64_t word = generation == 0 ? 0 : generation << 1 | (versioned ? 1 : 0);

    ASSERT(bucket_id != 0);
    ASSERT(generation <= UINT64_MAX / 2);
    if (slots->used + 1 > slots->capacity / 4 * 3) {
        slots = slots_grown(slots);
        slots_set(slots, bucket_id, word);
        atomic_store_explicit(&table->current, slots, memory_order_release);
        return;
    }
    slots_set(slots, bucket_id, word);
}

static uint64_t table_word(const struct bucket_table *table, uint64_t bucket_id)
{
    const struct bucket_slots *slots = atomic_load_explicit(&table->current, memory_order_acquire);
    const struct bucket_slot *slot;

    if (bucket_id == 0) {
        return 0;
    }
    slot = &slots->slots[slot_of(slots, bucket_id)];
    if (atomic_load_explicit(&slot->id, memory_order_acquire) != bucket_id) {
        return 0;
    }
    return atomic_load_explicit(&slot->word, memory_order_acquire);
}

uint64_t bucket_table_get(const struct bucket_table *table, uint64_t bucket_id)
{
    return table_word(table, bucket_id) >> 1;
}

bool bucket_table_versioned(const struct bucket_table *table, uint64_t bucket_id)
{
    return (table_word(table, bucket_id) & 1) != 0;
}
