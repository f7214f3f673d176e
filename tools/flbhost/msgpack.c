// Writes and measures msgpack records.

//go:build ignore

#define _GNU_SOURCE
#include "msgpack.h"

#include "report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void buffer_append(struct buffer *b, const void *bytes, size_t n)
{
    if (b->cap - b->len < n) {
        b->cap = (b->len + n) * 2;
        b->bytes = realloc(b->bytes, b->cap);
        if (b->bytes == NULL) {
            die("no memory for %zu bytes", b->cap);
        }
    }
    memcpy(b->bytes + b->len, bytes, n);
    b->len += n;
}

static void be(unsigned char *p, uint64_t v, int n)
{
    for (int i = n - 1; i >= 0; i--) {
        p[i] = (unsigned char)v;
        v >>= 8;
    }
}

static uint64_t read_be(const unsigned char *p, size_t n)
{
    uint64_t v = 0;

    while (n-- > 0) {
        v = v << 8 | *p++;
    }
    return v;
}

size_t msgpack_size(const unsigned char *p, size_t left)
{
    /* Fixed bytes after the type byte for c0 to df, then of what the length counts: bytes (1),
       values (2), pairs (3). */
    static const struct { unsigned char fixed, width, counts; } types[32] = {
        {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0},     /* nil, never used, false, true */
        {0, 1, 1}, {0, 2, 1}, {0, 4, 1},                /* bin */
        {1, 1, 1}, {1, 2, 1}, {1, 4, 1},                /* ext: a type byte as well */
        {4, 0, 0}, {8, 0, 0},                           /* float */
        {1, 0, 0}, {2, 0, 0}, {4, 0, 0}, {8, 0, 0},     /* uint */
        {1, 0, 0}, {2, 0, 0}, {4, 0, 0}, {8, 0, 0},     /* int */
        {2, 0, 0}, {3, 0, 0}, {5, 0, 0}, {9, 0, 0}, {17, 0, 0}, /* fixext */
        {0, 1, 1}, {0, 2, 1}, {0, 4, 1},                /* str */
        {0, 2, 2}, {0, 4, 2},                           /* array */
        {0, 2, 3}, {0, 4, 3},                           /* map */
    };
    const unsigned char *start = p;
    uint64_t values = 1; /* still to come; each needs a byte at least, so it stays below 2^34 */

    while (values > 0) {
        unsigned char t;
        uint64_t skip = 0, more = 0;

        if (values > left) {
            return 0;
        }
        t = *p++;
        left--;
        values--;
        if (t >= 0x80 && t <= 0x8f) {
            more = 2 * (uint64_t)(t & 0x0f);
        } else if (t >= 0x90 && t <= 0x9f) {
            more = t & 0x0f;
        } else if (t >= 0xa0 && t <= 0xbf) {
            skip = t & 0x1f;
        } else if (t >= 0xc0 && t <= 0xdf) {
            size_t width = types[t - 0xc0].width;
            uint64_t n;

            if (t == 0xc1 || width > left) {
                return 0;
            }
            n = read_be(p, width);
            skip = width + types[t - 0xc0].fixed;
            switch (types[t - 0xc0].counts) {
            case 1: skip += n; break;
            case 2: more = n; break;
            case 3: more = 2 * n; break;
            }
        }
        if (skip > left) {
            return 0;
        }
        p += skip;
        left -= skip;
        values += more;
    }
    return (size_t)(p - start);
}

/* in_tail writes maps with 32-bit lengths, an empty one too. */
static void record_head(struct buffer *b)
{
    unsigned char head[] = {0x92, 0x92, 0xd7, 0x00, 0, 0, 0, 0, 0, 0, 0, 0,
                            0xdf, 0, 0, 0, 0, 0xdf, 0, 0, 0, 1};
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    be(head + 4, (uint64_t)now.tv_sec, 4);
    be(head + 8, (uint64_t)now.tv_nsec, 4);
    buffer_append(b, head, sizeof(head));
}

void msgpack_line(struct buffer *b, const unsigned char *line, size_t len)
{
    unsigned char str[5];
    size_t n;

    if (len > UINT32_MAX) {
        die("a line of %zu bytes is more than msgpack can hold", len);
    }
    record_head(b);
    buffer_append(b, "\xa3log", 4);
    if (len < 32) {
        str[0] = (unsigned char)(0xa0 | len);
        n = 1;
    } else if (len < 256) {
        str[0] = 0xd9;
        n = 2;
    } else if (len < 65536) {
        str[0] = 0xda;
        n = 3;
    } else {
        str[0] = 0xdb;
        n = 5;
    }
    be(str + 1, len, (int)n - 1);
    buffer_append(b, str, n);
    buffer_append(b, line, len);
}

void msgpack_counter(struct buffer *b, unsigned long n)
{
    unsigned char v[9] = {0xcf};

    record_head(b);
    buffer_append(b, "\xa7" "flbhost", 8);
    be(v + 1, n, 8);
    buffer_append(b, v, sizeof(v));
}
