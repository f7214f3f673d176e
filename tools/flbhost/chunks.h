// Chunks: their memory, and their files while --storage keeps them.
// Everything here belongs to the engine's thread, or to the process's thread while no engine runs.
#ifndef FLBHOST_CHUNKS_H
#define FLBHOST_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

/* How far an input is read: everything before offset in this pass, and all passes before. */
struct mark {
    int input; /* -1: none */
    long pass;
    long long offset;
};

struct chunk {
    struct chunk *prev, *next; /* the unfinished ones, oldest first */
    uint64_t id;
    char *tag;
    const unsigned char *data; /* read-only, its end at the edge of an inaccessible page */
    size_t size;
    long records;
    struct mark end; /* where its input goes on */
    int stored;
    void *map;
    size_t map_size;

    int routes;    /* instances that have not finished with it */
    int in_flight; /* flushes that may be reading it now */
};

/* Copies bytes and tag. */
struct chunk *chunk_new(uint64_t id, const void *bytes, size_t size, const char *tag);
/* The same bytes at another address; the old one faults from now on. */
void chunk_move(struct chunk *c);
void chunk_free(struct chunk *c);

struct store;

/* Opens the folder (made if absent) and lists what a former run left. Ends the process on failure.
   NULL dir: an empty store that keeps no files. */
struct store *store_open(const char *dir);
/* The furthest mark that a left chunk holds for this input, or input -1. */
struct mark store_mark(const struct store *s, int input);
uint64_t store_new_id(struct store *s);
/* The next chunk left by a former run, oldest first, or NULL. */
struct chunk *store_next_left(struct store *s);
long store_count_left(const struct store *s);
/* The file appears whole under its name or not at all. Does nothing without a folder. */
void store_write(struct store *s, struct chunk *c);
void store_remove(struct store *s, struct chunk *c);
void store_close(struct store *s);

#endif
