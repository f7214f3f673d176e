// Reads audit logs and msgpack files and cuts them into chunks at record boundaries.

//go:build ignore

#define _GNU_SOURCE
#include "inputs.h"

#include "msgpack.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct inputs {
    const struct options *o;
    struct store *store;
    struct mark *at; /* one an input */
    int current;
    const unsigned char *map; /* of the current input, NULL before its first chunk */
    size_t size;
    int open;
    unsigned long counter;
    uint32_t number; /* of the next event, with --distinct */
    struct buffer buf;
};

/* Lines `PASS OFFSET PATH`, one an input, in the order of the command line. */
static void read_position(struct inputs *in)
{
    FILE *f = fopen(in->o->position, "r");
    char *line = NULL;
    size_t cap = 0;

    if (f == NULL) {
        if (errno != ENOENT) {
            die("--position %s: %s", in->o->position, strerror(errno));
        }
        return;
    }
    for (int i = 0; i < in->o->ninputs; i++) {
        ssize_t len = getline(&line, &cap, f);
        int n = 0;

        if (len > 0 && line[len - 1] == '\n') {
            line[len - 1] = '\0';
        }
        if (len <= 0 || sscanf(line, "%ld %lld %n", &in->at[i].pass, &in->at[i].offset, &n) != 2 ||
            strcmp(line + n, in->o->inputs[i].path) != 0) {
            die("--position %s: belongs to other inputs than these; remove it to read from the "
                "start", in->o->position);
        }
    }
    free(line);
    fclose(f);
}

static void write_position(struct inputs *in)
{
    char *tmp;
    FILE *f;
    int ok;

    if (in->o->position == NULL) {
        return;
    }
    if (asprintf(&tmp, "%s.tmp", in->o->position) < 0 || (f = fopen(tmp, "w")) == NULL) {
        die("--position %s: %s", in->o->position, strerror(errno));
    }
    ok = 1;
    for (int i = 0; i < in->o->ninputs; i++) {
        ok &= fprintf(f, "%ld %lld %s\n", in->at[i].pass, in->at[i].offset,
                      in->o->inputs[i].path) > 0;
    }
    if (fclose(f) != 0 || !ok || rename(tmp, in->o->position) != 0) {
        die("--position %s: %s", in->o->position, strerror(errno));
    }
    free(tmp);
}

struct inputs *inputs_open(const struct options *o, struct store *s)
{
    struct inputs *in = calloc(1, sizeof(*in));

    if (in == NULL || (in->at = calloc((size_t)o->ninputs + 1, sizeof(*in->at))) == NULL) {
        die("inputs: %s", strerror(ENOMEM));
    }
    in->o = o;
    in->store = s;
    in->number = (uint32_t)o->distinct;
    for (int i = 0; i < o->ninputs; i++) {
        if (access(o->inputs[i].path, R_OK) != 0) {
            die("%s: %s", o->inputs[i].path, strerror(errno));
        }
    }
    if (o->position == NULL) {
        return in; /* without it each run reads everything */
    }
    read_position(in);
    for (int i = 0; i < o->ninputs; i++) {
        /* Killed between a chunk and its position: the chunk knows better. */
        struct mark m = store_mark(s, i);

        if (m.input == i && (m.pass > in->at[i].pass ||
                             (m.pass == in->at[i].pass && m.offset > in->at[i].offset))) {
            in->at[i] = m;
        }
    }
    return in;
}

static void open_current(struct inputs *in)
{
    const char *path = in->o->inputs[in->current].path;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0) {
        die("%s: %s", path, strerror(errno));
    }
    in->size = (size_t)st.st_size;
    if (in->size > 0) {
        in->map = mmap(NULL, in->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (in->map == MAP_FAILED) {
            die("%s: %s", path, strerror(errno));
        }
    }
    close(fd);
    in->open = 1;
    if (in->at[in->current].offset > st.st_size) {
        report_line("%s is shorter than what was read of it: reading it from the start", path);
        in->at[in->current].offset = 0;
    }
}

static void close_current(struct inputs *in)
{
    if (in->map != NULL) {
        munmap((void *)in->map, in->size);
    }
    in->map = NULL;
    in->open = 0;
}

/* The text of an auditID whose key ends at p, in JSON or in msgpack. NULL when it is none. */
static unsigned char *id_text(unsigned char *p, unsigned char *end, size_t *len)
{
    if (end - p > 3 && memcmp(p, "\":\"", 3) == 0) {
        unsigned char *quote = memchr(p + 3, '"', (size_t)(end - p - 3));

        *len = quote == NULL ? 0 : (size_t)(quote - p - 3);
        return quote == NULL ? NULL : p + 3;
    }
    if (end - p > 1 && (*p & 0xe0) == 0xa0) {
        *len = *p & 0x1f;
        p += 1;
    } else if (end - p > 2 && *p == 0xd9) {
        *len = p[1];
        p += 2;
    } else {
        return NULL;
    }
    return (size_t)(end - p) < *len ? NULL : p;
}

/* Writes the next number over the first auditID of the record that begins there in the buffer: its
   last digits where the ID is shorter than 8 characters. */
static void number_record(struct inputs *in, size_t start)
{
    static const char key[] = "auditID";
    unsigned char *p = in->buf.bytes + start, *end = in->buf.bytes + in->buf.len;
    size_t len;

    while ((p = memmem(p, (size_t)(end - p), key, sizeof(key) - 1)) != NULL) {
        unsigned char *id = id_text(p += sizeof(key) - 1, end, &len);
        char hex[9];

        if (id != NULL && len > 0) {
            len = len < 8 ? len : 8;
            snprintf(hex, sizeof(hex), "%08" PRIx32, in->number++);
            memcpy(id, hex + 8 - len, len);
            return;
        }
    }
}

/* Appends the record at the mark and moves the mark. Returns 0 at the end of the file. */
static int append_record(struct inputs *in, struct mark *m)
{
    const unsigned char *p = in->map + m->offset;
    size_t left = in->size - (size_t)m->offset;
    size_t n;

    if (left == 0) {
        return 0;
    }
    if (in->o->inputs[in->current].kind == INPUT_MSGPACK) {
        n = msgpack_size(p, left);
        if (n == 0) {
            n = left; /* hostile bytes are input too */
        }
        buffer_append(&in->buf, p, n);
        m->offset += (long long)n;
        return 1;
    }
    for (;;) {
        const unsigned char *nl = memchr(p, '\n', left);
        size_t len;

        if (nl == NULL) {
            report_line("%s: the last %zu bytes have no newline and stay unread",
                        in->o->inputs[in->current].path, left);
            return 0;
        }
        n = (size_t)(nl - p) + 1;
        m->offset += (long long)n;
        len = n - 1;
        if (len > 0 && p[len - 1] == '\r') {
            len--;
        }
        if (len > 0) {
            msgpack_line(&in->buf, p, len);
            return 1;
        }
        p += n; /* in_tail skips empty lines as well */
        left -= n;
        if (left == 0) {
            return 0;
        }
    }
}

struct chunk *inputs_next(struct inputs *in)
{
    const struct options *o = in->o;

    while (in->current < o->ninputs) {
        struct mark *m = &in->at[in->current];
        struct chunk *c;
        size_t start = 0; /* of the record in the buffer */
        long records = 0;

        if (!in->open) {
            open_current(in);
        }
        in->buf.len = 0;
        while (in->buf.len < o->chunk_bytes &&
               (o->chunk_records == 0 || records < o->chunk_records) && append_record(in, m)) {
            if (o->distinct >= 0) {
                number_record(in, start);
            }
            start = in->buf.len;
            records++;
        }
        if (records == 0) {
            /* The mark of the last pass stays at its end: what is appended later is read then. */
            if (m->pass + 1 < o->inputs[in->current].repeat) {
                m->pass++;
                m->offset = 0;
            } else {
                close_current(in);
                in->current++;
            }
            continue;
        }
        if (o->unique) {
            msgpack_counter(&in->buf, ++in->counter);
            records++;
        }
        c = chunk_new(store_new_id(in->store), in->buf.bytes, in->buf.len,
                      o->inputs[in->current].tag);
        c->records = records;
        c->end = *m;
        c->end.input = in->current;
        store_write(in->store, c);
        write_position(in);
        return c;
    }
    return NULL;
}

void inputs_close(struct inputs *in)
{
    close_current(in);
    free(in->buf.bytes);
    free(in->at);
    free(in);
}
