/* Runs many short programs back to back on more threads than there are cores; prints the chunks that were done.
   A program that begins while another thread is still ending the last one must lose nothing. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "team.h"

static atomic_long done;

static int chunks_of(void *job, int phase) {
    (void)job;
    return phase == 1 ? 0 : 3;
}

static void run_chunk(void *job, int phase, int chunk, int worker) {
    (void)job, (void)phase, (void)chunk, (void)worker;
    atomic_fetch_add(&done, 1);
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    team *t = team_open(atoi(arguments[1]));
    if (!t) return 3;
    for (int left = atoi(arguments[2]); left > 0; left--)
        team_run(t, (program){.phases = 3, .chunks = chunks_of, .run = run_chunk});
    team_close(t);
    printf("%ld\n", atomic_load(&done));
    return 0;
}
