// A bare POST after each flush, for --post-to: what a flush is held against.
#ifndef FLBHOST_BAREPOST_H
#define FLBHOST_BAREPOST_H

#include "options.h"

#include <stdint.h>

/* Reads the body and connects; does nothing without --post-to. Ends the process on failure. */
void barepost_open(const struct options *o);
/* Sends the body and waits for the end of the answer, which must be a 200 with a Content-Length.
   Returns the nanoseconds that took, or -1 without --post-to. One connection is used throughout.
   Ends the process on failure. Callers take turns. */
int64_t barepost(void);

#endif
