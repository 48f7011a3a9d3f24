#include "team.h"

#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define SPINS 1500
#define CHUNK_BITS 24
#define CHUNK_MASK ((1u << CHUNK_BITS) - 1)
#define CACHE_LINE 64

typedef struct {
    team *team;
    int worker;
    pthread_t thread;
} member;

/* `ticket` holds the number of the phase since the team began, above the chunks nobody has claimed yet. A claim is a
   compare-and-swap of the whole, so a thread that slept through phases cannot claim what it did not see.
   `current`, `phase` and `count` change only while no chunk is claimed or to be claimed.
   `end` is the phase number of the ticket that ends the program, 0 while the program goes on. It is set before that
   ticket is published, and the caller goes on only after: else a late publication could undo the next program's.
   It looks at one ticket only before it waits: else it could wait for what comes after the end. */
struct team {
    _Alignas(CACHE_LINE) atomic_uint_fast64_t ticket;
    _Alignas(CACHE_LINE) atomic_int unfinished;
    _Alignas(CACHE_LINE) atomic_uint_fast64_t end;
    _Alignas(CACHE_LINE) program current;
    int phase;
    int count;
    _Alignas(CACHE_LINE) atomic_int sleepers;
    atomic_int closing;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int threads;
    member *members;
};

static void publish(team *t, uint64_t before, int chunks) {
    atomic_store(&t->ticket, ((before >> CHUNK_BITS) + 1) << CHUNK_BITS | (uint64_t)chunks);
    if (atomic_load(&t->sleepers) > 0) {
        pthread_mutex_lock(&t->lock);
        pthread_cond_broadcast(&t->wake);
        pthread_mutex_unlock(&t->lock);
    }
}

/* Go on to the next phase that has chunks, or end the program. Only the thread that did the last chunk gets here. */
static void advance(team *t) {
    uint64_t before = atomic_load_explicit(&t->ticket, memory_order_relaxed);
    int count = 0;
    while (!count && ++t->phase < t->current.phases) count = t->current.chunks(t->current.job, t->phase);
    t->count = count;
    atomic_store_explicit(&t->unfinished, count, memory_order_relaxed);
    if (!count) atomic_store(&t->end, (before >> CHUNK_BITS) + 1);
    publish(t, before, count);
}

/* Wait until the ticket is no longer `seen`: spin, then sleep. */
static void wait_for_change(team *t, uint64_t seen) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&t->ticket, memory_order_acquire) != seen) return;
        _mm_pause();
    }
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->sleepers, 1);
    while (atomic_load(&t->ticket) == seen && !atomic_load(&t->closing)) pthread_cond_wait(&t->wake, &t->lock);
    atomic_fetch_sub(&t->sleepers, 1);
    pthread_mutex_unlock(&t->lock);
}

/* Claim and do a chunk of this ticket, or wait for another ticket when it has none left. */
static void turn(team *t, uint64_t ticket, int worker) {
    int left = (int)(ticket & CHUNK_MASK);
    if (!left) {
        wait_for_change(t, ticket);
    } else if (atomic_compare_exchange_weak(&t->ticket, &ticket, ticket - 1)) {
        t->current.run(t->current.job, t->phase, t->count - left, worker);
        if (atomic_fetch_sub(&t->unfinished, 1) == 1) advance(t);
    }
}

static void *member_main(void *argument) {
    member *m = argument;
    while (!atomic_load_explicit(&m->team->closing, memory_order_acquire))
        turn(m->team, atomic_load_explicit(&m->team->ticket, memory_order_acquire), m->worker);
    return NULL;
}

void team_run(team *t, program p) {
    t->current = p;
    t->phase = -1;
    atomic_store(&t->end, 0);
    advance(t);
    for (;;) {
        uint64_t ticket = atomic_load(&t->ticket);
        if (ticket >> CHUNK_BITS == atomic_load(&t->end)) return;
        turn(t, ticket, 0);
    }
}

team *team_open(int threads) {
    team *t = aligned_alloc(CACHE_LINE, (sizeof *t + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (!t) return NULL;
    *t = (team){.threads = 1};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    t->members = calloc((size_t)threads, sizeof *t->members);
    while (t->members && t->threads < threads) {
        member *m = &t->members[t->threads];
        *m = (member){t, t->threads, 0};
        if (pthread_create(&m->thread, NULL, member_main, m)) break;
        t->threads++;
    }
    if (t->threads == threads) return t;
    team_close(t);
    return NULL;
}

void team_close(team *t) {
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->closing, 1);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
    for (int i = 1; i < t->threads; i++) pthread_join(t->members[i].thread, NULL);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t->members);
    free(t);
}
