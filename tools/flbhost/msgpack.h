// Just enough msgpack: to write a record as in_tail does, and to find where one ends.
#ifndef FLBHOST_MSGPACK_H
#define FLBHOST_MSGPACK_H

#include <stddef.h>

struct buffer {
    unsigned char *bytes;
    size_t len, cap;
};

void buffer_append(struct buffer *b, const void *bytes, size_t n);

/* The size of the value at p, or 0 when it is cut short or no msgpack. Uses no memory. */
size_t msgpack_size(const unsigned char *p, size_t left);
/* [[now, {}], {"log": line}] */
void msgpack_line(struct buffer *b, const unsigned char *line, size_t len);
/* [[now, {}], {"flbhost": n}] */
void msgpack_counter(struct buffer *b, unsigned long n);

#endif
