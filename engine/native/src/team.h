/* A small team of threads that works through a program of phases together.

   A phase is a number of chunks; whoever is free claims the next one, and the next phase starts when all are done.
   Nobody waits for a thread that has claimed nothing: the caller of team_run can finish a program alone. A thread that
   waits spins for some tens of microseconds and then sleeps, because other processes share the cores. */
#ifndef NATIVE_TEAM_H
#define NATIVE_TEAM_H

typedef struct team team;

typedef struct {
    int phases;
    /* Chunks of a phase; 0 to pass over it. Called once per phase, when all before it are done. */
    int (*chunks)(void *job, int phase);
    /* Do one chunk. `worker` is below the team's size and names scratch nobody else uses at the time. */
    void (*run)(void *job, int phase, int chunk, int worker);
    void *job;
} program;

/* Start threads - 1 threads; NULL when the system refuses. */
team *team_open(int threads);

/* Run a program; the caller is one of the workers. One program at a time. */
void team_run(team *t, program p);

/* Stop the threads; t may be NULL. */
void team_close(team *t);

#endif
