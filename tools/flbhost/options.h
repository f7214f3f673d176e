// The command line of the host, as the rest of it reads it.
#ifndef FLBHOST_OPTIONS_H
#define FLBHOST_OPTIONS_H

#include <stddef.h>

struct property {
    char *key;
    char *value; /* NULL when given empty, as Fluent Bit hands it out */
};

/* One [OUTPUT] section. */
struct output_options {
    struct property *props;
    int nprops;
    const char *match; /* a tag, `*` stands for any run of characters */
    int workers;       /* 0: flushes run on the engine's thread */
};

enum input_kind { INPUT_LOG, INPUT_MSGPACK };

struct input_options {
    enum input_kind kind;
    const char *path;
    const char *tag;
    long repeat;
};

struct options {
    const char *plugin;
    struct output_options *outputs;
    int noutputs;
    struct input_options *inputs;
    int ninputs;

    size_t chunk_bytes;
    long chunk_records; /* 0: no limit */
    double interval;    /* seconds between chunks */
    double rate;        /* records a second, 0: as fast as they are taken */
    int queue;          /* unfinished chunks held in memory at a time */
    int unique;
    long distinct; /* number of the first event, -1: auditIDs stay as they are */
    const char *storage;
    const char *position;

    double retry_base, retry_cap, grace, linger; /* seconds */
    int drop_retries;
    int wait_signal;
    int ignore_synchronous;
    int hide_ctx;
    size_t stack;
    long reload_after; /* answers, 0: never */

    const char *gap_output;
    double gap_interval; /* seconds */
    const char *latency;
    const char *post_to, *post_body; /* both or neither */
    int rss;
    long rss_every;
    int daemon;
    const char *status_file;
    int verbose;
};

/* Fills in o. Returns 0, or the exit status plus one when the process should end now. */
int options_parse(struct options *o, int argc, char **argv);
void options_free(struct options *o);

#endif
