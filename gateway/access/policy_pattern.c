#include "gateway/access/policy_pattern.h"

#include "common/base/assert.h"
#include "gateway/access/policy.h"

/* Tokens: a byte, or one of these; TOKEN_VARIABLE + i is variable i. */
enum { TOKEN_STAR = 256, TOKEN_ONE = 257, TOKEN_VARIABLE = 512 };
enum { PATTERN_VARIABLES_MAX = 16 };

/* ---- Compiling ---- */

struct pattern_reader {
    struct arena *arena;
    struct slice rest;
    uint16_t *tokens;
    uint32_t token_count;
    struct policy_variable variables[PATTERN_VARIABLES_MAX];
    uint32_t variable_count;
    bool wildcard;
};

/* "aws:username" or "aws:username, 'nobody'", without the braces. */
static bool pattern_variable(struct pattern_reader *reader, struct slice inside)
{
    struct policy_variable *variable;
    size_t comma = slice_find(inside, ',');
    struct slice otherwise = slice_trim(slice_after(inside, comma + 1));

    if (inside.len == 1 &&
        (inside.data[0] == '*' || inside.data[0] == '?' || inside.data[0] == '$')) {
        reader->tokens[reader->token_count++] = (uint8_t)inside.data[0];
        return true;
    }
    if (reader->variable_count == PATTERN_VARIABLES_MAX) {
        return false;
    }
    variable = &reader->variables[reader->variable_count];
    *variable = (struct policy_variable){0};
    variable->key = policy_key_find(slice_trim(slice_of(inside.data, comma)), &variable->name);
    if (variable->key == POLICY_KEY_COUNT) {
        return false;
    }
    if (comma < inside.len) {
        if (otherwise.len < 2 || otherwise.data[0] != '\'' ||
            otherwise.data[otherwise.len - 1] != '\'') {
            return false;
        }
        variable->otherwise = slice_of(otherwise.data + 1, otherwise.len - 2);
    }
    reader->tokens[reader->token_count++] = (uint16_t)(TOKEN_VARIABLE + reader->variable_count);
    reader->variable_count += 1;
    return true;
}

static bool pattern_read(struct pattern_reader *reader, unsigned flags)
{
    bool wildcards = (flags & POLICY_PATTERN_WILDCARDS) != 0;

    while (reader->rest.len > 0) {
        char c = reader->rest.data[0];

        if ((flags & POLICY_PATTERN_VARIABLES) != 0 && slice_starts(reader->rest, SLICE("${"))) {
            size_t end = slice_find(reader->rest, '}');

            if (end == reader->rest.len ||
                !pattern_variable(reader, slice_of(reader->rest.data + 2, end - 2))) {
                return false;
            }
            reader->rest = slice_after(reader->rest, end + 1);
            continue;
        }
        if (wildcards && (c == '*' || c == '?')) {
            reader->tokens[reader->token_count++] = c == '*' ? TOKEN_STAR : TOKEN_ONE;
            reader->wildcard = true;
        } else {
            reader->tokens[reader->token_count++] = (uint8_t)c;
        }
        reader->rest = slice_after(reader->rest, 1);
    }
    return true;
}

bool policy_pattern_compile(struct arena *arena, struct slice text, unsigned flags,
                            struct policy_pattern *out)
{
    struct pattern_reader reader = {.arena = arena};
    bool special = false;

    *out = (struct policy_pattern){.text = arena_copy(arena, text)};
    for (size_t i = 0; i < text.len; i++) {
        special = special || text.data[i] == '*' || text.data[i] == '?' || text.data[i] == '$';
    }
    if (!special) {
        out->plain = true;
        return true;
    }
    reader.rest = out->text;
    reader.tokens = arena_alloc_raw(arena, text.len * sizeof(*reader.tokens));
    if (!pattern_read(&reader, flags)) {
        return false;
    }
    out->tokens = reader.tokens;
    out->token_count = reader.token_count;
    out->variable_count = reader.variable_count;
    if (reader.variable_count > 0) {
        struct policy_variable *variables =
            arena_alloc_raw(arena, reader.variable_count * sizeof(*variables));

        memcpy(variables, reader.variables, reader.variable_count * sizeof(*variables));
        out->variables = variables;
    }
    out->wildcard = reader.wildcard;
    return true;
}

bool policy_pattern_needs_object(const struct policy_pattern *pattern)
{
    for (uint32_t i = 0; i < pattern->variable_count; i++) {
        if (pattern->variables[i].key == POLICY_KEY_EXISTING_TAG) {
            return true;
        }
    }
    return false;
}

/* ---- Matching ---- */

static uint8_t pattern_fold(uint8_t byte, bool fold)
{
    return fold && byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte | 0x20) : byte;
}

/* Bytes of the character that begins at `at`: continuation bytes belong to it. */
static size_t pattern_character(struct slice text, size_t at)
{
    size_t end = at + 1;

    if (((uint8_t)text.data[at] & 0xc0) == 0xc0) {
        while (end < text.len && ((uint8_t)text.data[end] & 0xc0) == 0x80) {
            end += 1;
        }
    }
    return end - at;
}

static bool pattern_run(const uint16_t *tokens, size_t count, struct slice text, bool fold)
{
    size_t at = 0;
    size_t text_at = 0;
    size_t star = SIZE_MAX;
    size_t star_text = 0;

    while (text_at < text.len) {
        if (at < count && tokens[at] == TOKEN_STAR) {
            star = at;
            star_text = text_at;
            at += 1;
        } else if (at < count && tokens[at] == TOKEN_ONE) {
            text_at += pattern_character(text, text_at);
            at += 1;
        } else if (at < count && pattern_fold((uint8_t)tokens[at], fold) ==
                                     pattern_fold((uint8_t)text.data[text_at], fold)) {
            text_at += 1;
            at += 1;
        } else if (star != SIZE_MAX) {
            at = star + 1;
            star_text += 1;
            text_at = star_text;
        } else {
            return false;
        }
    }
    while (at < count && tokens[at] == TOKEN_STAR) {
        at += 1;
    }
    return at == count;
}

static bool pattern_value(const struct policy_variable *variable,
                          const struct policy_request *request, struct slice *out)
{
    struct policy_values values = {0};

    if (request->value(request, variable->key, variable->name, &values) && values.count == 1) {
        *out = values.items[0];
        return true;
    }
    *out = variable->otherwise;
    return variable->otherwise.data != NULL;
}

static bool pattern_match_variables(const struct policy_pattern *pattern, struct slice text,
                                    bool fold, const struct policy_request *request)
{
    struct slice values[PATTERN_VARIABLES_MAX];
    size_t count = pattern->token_count;
    size_t used = 0;
    uint16_t *tokens;

    ASSERT(pattern->variable_count <= PATTERN_VARIABLES_MAX);
    for (uint32_t i = 0; i < pattern->variable_count; i++) {
        if (!pattern_value(&pattern->variables[i], request, &values[i])) {
            return false;
        }
        count += values[i].len;
    }
    tokens = arena_alloc_raw(request->arena, count * sizeof(*tokens));
    for (uint32_t i = 0; i < pattern->token_count; i++) {
        if (pattern->tokens[i] < TOKEN_VARIABLE) {
            tokens[used++] = pattern->tokens[i];
            continue;
        }
        for (size_t j = 0; j < values[pattern->tokens[i] - TOKEN_VARIABLE].len; j++) {
            tokens[used++] = (uint8_t)values[pattern->tokens[i] - TOKEN_VARIABLE].data[j];
        }
    }
    ASSERT(used <= count);
    return pattern_run(tokens, used, text, fold);
}

bool policy_pattern_match(const struct policy_pattern *pattern, struct slice text, bool fold,
                          const struct policy_request *request)
{
    if (pattern->plain) {
        return fold ? slice_eq_nocase(pattern->text, text) : slice_eq(pattern->text, text);
    }
    if (pattern->variable_count > 0) {
        return pattern_match_variables(pattern, text, fold, request);
    }
    return pattern_run(pattern->tokens, pattern->token_count, text, fold);
}
