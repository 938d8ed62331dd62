/* Documents of requests: bounded in memory and depth, and the tree is a tree. */
#include "tests/fuzz/fuzz.h"

#include "common/base/limits.h"
#include "gateway/xml/xml_reader.h"

enum { FUZZ_MEMORY_FACTOR = 64 };

/* Without recursion: depth is bounded by the reader, the walk must not depend on that. */
static size_t tree_count(const struct xml_node *root)
{
    const struct xml_node *stack[LIMIT_XML_DEPTH + 2];
    size_t depth = 0;
    size_t count = 0;

    stack[depth++] = root;
    while (depth > 0) {
        const struct xml_node *node = stack[--depth];

        count += 1;
        ASSERT(node->children == NULL || node->text.len == 0);
        if (node->next != NULL) {
            stack[depth++] = node->next;
        }
        if (node->children != NULL) {
            ASSERT(depth < LIMIT_XML_DEPTH + 2);
            stack[depth++] = node->children;
        }
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct xml_node *root = NULL;
    struct error error;
    struct arena arena;

    arena_init(&arena);
    if (xml_reader_parse(slice_of(data, size), &arena, &root, &error) == RC_OK) {
        ASSERT(root != NULL);
        ASSERT(tree_count(root) <= size);
        ASSERT(arena.used_bytes <= size * FUZZ_MEMORY_FACTOR + 65536);
    } else {
        ASSERT(error.rc == RC_INVALID || error.rc == RC_LIMIT);
    }
    arena_deinit(&arena);
    return 0;
}
