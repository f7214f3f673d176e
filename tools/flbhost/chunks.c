// Keeps chunks in memory that faults once it is given back, and in files in the order of their making.

//go:build ignore

#define _GNU_SOURCE
#include "chunks.h"

#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Addresses given back lately stay reserved: the next chunk must not land where a plugin that kept
   a pointer would find plausible bytes. */
#define RETIRED 64

static struct { void *map; size_t size; } retired[RETIRED];
static int retired_next;

static void retire(void *map, size_t size)
{
    if (mmap(map, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
             -1, 0) == MAP_FAILED) {
        munmap(map, size);
        return;
    }
    if (retired[retired_next].map != NULL) {
        munmap(retired[retired_next].map, retired[retired_next].size);
    }
    retired[retired_next].map = map;
    retired[retired_next].size = size;
    retired_next = (retired_next + 1) % RETIRED;
}

static void place(struct chunk *c, const void *bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (c->size + page - 1) / page * page;
    unsigned char *at;

    c->map_size = body + page;
    c->map = mmap(NULL, c->map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c->map == MAP_FAILED) {
        die("chunk of %zu bytes: %s", c->size, strerror(errno));
    }
    at = (unsigned char *)c->map + body - c->size;
    memcpy(at, bytes, c->size);
    if (body > 0) {
        mprotect(c->map, body, PROT_READ);
    }
    mprotect((char *)c->map + body, page, PROT_NONE);
    c->data = at;
}

struct chunk *chunk_new(uint64_t id, const void *bytes, size_t size, const char *tag)
{
    struct chunk *c = calloc(1, sizeof(*c));

    if (c == NULL || (c->tag = strdup(tag)) == NULL) {
        die("chunk: %s", strerror(ENOMEM));
    }
    c->id = id;
    c->size = size;
    c->end.input = -1;
    place(c, bytes);
    return c;
}

void chunk_move(struct chunk *c)
{
    void *map = c->map;
    size_t size = c->map_size;

    place(c, c->data);
    retire(map, size);
}

void chunk_free(struct chunk *c)
{
    retire(c->map, c->map_size);
    free(c->tag);
    free(c);
}

/* A left file, known by its name and its first line:
   `flbhost1 TAG_LENGTH INPUT PASS OFFSET RECORDS\n`, then the tag, then the bytes. */
struct left {
    uint64_t id;
    struct mark end;
};

struct store {
    char *dir;
    uint64_t next_id;
    struct left *left;
    long nleft, at;
};

static char *path_of(const struct store *s, uint64_t id, const char *suffix)
{
    char *path;

    if (asprintf(&path, "%s/%020" PRIu64 "%s", s->dir, id, suffix) < 0) {
        die("storage: %s", strerror(ENOMEM));
    }
    return path;
}

static FILE *open_left(const struct store *s, uint64_t id, size_t *tag_len, struct mark *end,
                       long *records)
{
    char *path = path_of(s, id, ".chunk");
    FILE *f = fopen(path, "rb");

    if (f == NULL) {
        die("%s: %s", path, strerror(errno));
    }
    if (fscanf(f, "flbhost1 %zu %d %ld %lld %ld", tag_len, &end->input, &end->pass, &end->offset,
               records) != 5 || fgetc(f) != '\n' || *tag_len > 65535) {
        die("%s: not a chunk of this host; remove it", path);
    }
    free(path);
    return f;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct left *)a)->id, y = ((const struct left *)b)->id;

    return x < y ? -1 : x > y;
}

struct store *store_open(const char *dir)
{
    struct store *s = calloc(1, sizeof(*s));
    struct dirent *e;
    DIR *d;

    if (s == NULL) {
        die("storage: %s", strerror(ENOMEM));
    }
    s->next_id = 1;
    if (dir == NULL) {
        return s;
    }
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        die("--storage %s: %s", dir, strerror(errno));
    }
    s->dir = strdup(dir);
    d = opendir(dir);
    if (s->dir == NULL || d == NULL) {
        die("--storage %s: %s", dir, strerror(errno));
    }
    while ((e = readdir(d)) != NULL) {
        struct left l;
        size_t tag_len;
        long records;
        int n = 0;

        if (sscanf(e->d_name, "%20" SCNu64 ".chunk%n", &l.id, &n) != 1 || n == 0 ||
            e->d_name[n] != '\0') {
            continue; /* a temporary name: never whole, its lines are still unread */
        }
        fclose(open_left(s, l.id, &tag_len, &l.end, &records));
        s->left = realloc(s->left, (size_t)(s->nleft + 1) * sizeof(*s->left));
        if (s->left == NULL) {
            die("storage: %s", strerror(ENOMEM));
        }
        s->left[s->nleft++] = l;
        if (l.id >= s->next_id) {
            s->next_id = l.id + 1;
        }
    }
    closedir(d);
    if (s->nleft > 0) {
        qsort(s->left, (size_t)s->nleft, sizeof(*s->left), by_id);
    }
    return s;
}

struct mark store_mark(const struct store *s, int input)
{
    struct mark best = {-1, 0, 0};

    for (long i = 0; i < s->nleft; i++) {
        const struct mark *m = &s->left[i].end;

        if (m->input == input && (best.input < 0 || m->pass > best.pass ||
                                  (m->pass == best.pass && m->offset > best.offset))) {
            best = *m;
        }
    }
    return best;
}

uint64_t store_new_id(struct store *s)
{
    return s->next_id++;
}

struct chunk *store_next_left(struct store *s)
{
    struct stat st;
    struct chunk *c;
    struct mark end;
    size_t tag_len, size;
    uint64_t id;
    long records, start;
    char *bytes;
    FILE *f;

    if (s->at == s->nleft) {
        return NULL;
    }
    id = s->left[s->at++].id;
    f = open_left(s, id, &tag_len, &end, &records);
    start = ftell(f);
    if (fstat(fileno(f), &st) != 0 || st.st_size < start + (long)tag_len) {
        die("storage: chunk %" PRIu64 " is cut short; remove it", id);
    }
    size = (size_t)(st.st_size - start) - tag_len;
    bytes = calloc(1, tag_len + 1 + size);
    if (bytes == NULL || fread(bytes, 1, tag_len, f) != tag_len ||
        fread(bytes + tag_len + 1, 1, size, f) != size) {
        die("storage: cannot read chunk %" PRIu64, id);
    }
    fclose(f);
    c = chunk_new(id, bytes + tag_len + 1, size, bytes);
    free(bytes);
    c->end = end;
    c->records = records;
    c->stored = 1;
    return c;
}

long store_count_left(const struct store *s)
{
    return s->nleft - s->at;
}

void store_write(struct store *s, struct chunk *c)
{
    char *tmp, *path;
    FILE *f;

    if (s->dir == NULL) {
        return;
    }
    tmp = path_of(s, c->id, ".tmp");
    path = path_of(s, c->id, ".chunk");
    f = fopen(tmp, "wb");
    if (f == NULL ||
        fprintf(f, "flbhost1 %zu %d %ld %lld %ld\n%s", strlen(c->tag), c->end.input, c->end.pass,
                c->end.offset, c->records, c->tag) < 0 ||
        fwrite(c->data, 1, c->size, f) != c->size || fclose(f) != 0 || rename(tmp, path) != 0) {
        die("%s: %s", path, strerror(errno));
    }
    c->stored = 1;
    free(tmp);
    free(path);
}

void store_remove(struct store *s, struct chunk *c)
{
    char *path;

    if (!c->stored) {
        return;
    }
    path = path_of(s, c->id, ".chunk");
    if (unlink(path) != 0) {
        die("%s: %s", path, strerror(errno));
    }
    free(path);
}

void store_close(struct store *s)
{
    free(s->dir);
    free(s->left);
    free(s);
}
