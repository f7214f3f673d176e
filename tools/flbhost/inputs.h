// The inputs: files cut into chunks, one after another, and how far they were read.
#ifndef FLBHOST_INPUTS_H
#define FLBHOST_INPUTS_H

#include "chunks.h"
#include "options.h"

struct inputs;

/* Goes on where the position file and the chunks left in storage say. Ends the process on failure. */
struct inputs *inputs_open(const struct options *o, struct store *s);
/* The next chunk, already in storage, the position written after it. NULL at the end of all inputs. */
struct chunk *inputs_next(struct inputs *in);
void inputs_close(struct inputs *in);

#endif
