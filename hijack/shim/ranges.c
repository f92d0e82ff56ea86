/* A treap: a search tree by address that is a heap by random priority, so it stays shallow without
 * rebalancing. */
#include "ranges.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

struct node {
	struct phos_range range;
	uint32_t priority;
	struct node *left, *right;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct node *root;
static uint64_t last_id;
static atomic_uint shown, placed; /* numbers of such ranges */
static uint32_t random_state = 2463534242u;

static uint32_t next_priority(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state;
}

/* Returns the range with the highest base that is not above address. It may end before address. */
static struct node *at_or_below(uint64_t address)
{
	struct node *best = NULL;
	for (struct node *n = root; n != NULL;) {
		if (n->range.base <= address) {
			best = n;
			n = n->right;
		} else {
			n = n->left;
		}
	}
	return best;
}

static struct node *holding(uint64_t address)
{
	struct node *n = at_or_below(address);
	return n != NULL && address - n->range.base < n->range.bytes ? n : NULL;
}

static bool overlaps(uint64_t base, uint64_t bytes)
{
	if (bytes == 0)
		return false;
	struct node *n = at_or_below(base + (bytes - 1));
	return n != NULL && n->range.bytes > 0 &&
	       (n->range.base >= base || base - n->range.base < n->range.bytes);
}

/* Splits a tree into bases below key and bases at or above key. */
static void split(struct node *tree, uint64_t key, struct node **below, struct node **above)
{
	while (tree != NULL) {
		if (tree->range.base < key) {
			*below = tree;
			below = &tree->right;
			tree = tree->right;
		} else {
			*above = tree;
			above = &tree->left;
			tree = tree->left;
		}
	}
	*below = *above = NULL;
}

/* Joins two trees; all bases in low are lower. */
static struct node *join(struct node *low, struct node *high)
{
	struct node *top = NULL, **link = &top;
	while (low != NULL && high != NULL) {
		if (low->priority > high->priority) {
			*link = low;
			link = &low->right;
			low = low->right;
		} else {
			*link = high;
			link = &high->left;
			high = high->left;
		}
	}
	*link = low != NULL ? low : high;
	return top;
}

static void insert(struct node *fresh)
{
	struct node **link = &root;
	while (*link != NULL && (*link)->priority >= fresh->priority)
		link = fresh->range.base < (*link)->range.base ? &(*link)->left : &(*link)->right;
	split(*link, fresh->range.base, &fresh->left, &fresh->right);
	*link = fresh;
}

static struct node *take_out(uint64_t base, uint32_t kinds)
{
	struct node **link = &root;
	while (*link != NULL && (*link)->range.base != base)
		link = base < (*link)->range.base ? &(*link)->left : &(*link)->right;
	struct node *found = *link;
	if (found == NULL || (found->range.kind & kinds) == 0)
		return NULL;
	*link = join(found->left, found->right);
	if (found->range.shown)
		atomic_fetch_sub(&shown, 1);
	if (found->range.placed)
		atomic_fetch_sub(&placed, 1);
	return found;
}

/* Removes all ranges where the session has just allocated memory. They are stale: for example, the
 * shim does not learn when the variables of an unloaded module end. */
static void evict(uint64_t base, uint64_t bytes)
{
	while (overlaps(base, bytes))
		free(take_out(at_or_below(base + (bytes - 1))->range.base, ~0u));
}

static bool same_variable(const struct phos_range *a, const struct phos_range *b)
{
	return a->base == b->base && a->bytes == b->bytes &&
	       (a->module == b->module || a->context == b->context);
}

/* The same for a variable: removes variables of unloaded modules there. */
static void evict_variables(const struct phos_range *range)
{
	while (overlaps(range->base, range->bytes)) {
		struct node *last = at_or_below(range->base + (range->bytes - 1));
		if (last->range.kind != PHOS_RANGE_GLOBAL || same_variable(&last->range, range))
			return;
		free(take_out(last->range.base, PHOS_RANGE_GLOBAL));
	}
}

bool phos_range_add(const struct phos_range *range)
{
	struct node *fresh = malloc(sizeof *fresh);
	if (fresh == NULL)
		return false;
	fresh->range = *range;
	pthread_rwlock_wrlock(&lock);
	if ((range->kind & (PHOS_RANGE_REGISTERED | PHOS_RANGE_GLOBAL)) == 0)
		evict(range->base, range->bytes);
	if (range->kind == PHOS_RANGE_GLOBAL)
		evict_variables(range);
	bool room = !overlaps(range->base, range->bytes);
	if (room) {
		fresh->range.id = ++last_id;
		fresh->priority = next_priority();
		insert(fresh);
		if (range->shown)
			atomic_fetch_add(&shown, 1);
		if (range->placed)
			atomic_fetch_add(&placed, 1);
	}
	pthread_rwlock_unlock(&lock);
	if (!room)
		free(fresh);
	return room;
}

bool phos_range_find(uint64_t address, struct phos_range *range)
{
	pthread_rwlock_rdlock(&lock);
	struct node *n = holding(address);
	if (n != NULL)
		*range = n->range;
	pthread_rwlock_unlock(&lock);
	return n != NULL;
}

bool phos_range_shown(uint64_t address)
{
	struct phos_range range;
	return atomic_load(&shown) > 0 && phos_range_find(address, &range) && range.shown;
}

bool phos_range_placed(uint64_t address)
{
	struct phos_range range;
	return atomic_load(&placed) > 0 && phos_range_find(address, &range) && range.placed;
}

bool phos_range_overlaps(uint64_t base, uint64_t bytes)
{
	pthread_rwlock_rdlock(&lock);
	bool found = overlaps(base, bytes);
	pthread_rwlock_unlock(&lock);
	return found;
}

bool phos_range_remove(uint64_t base, uint32_t kinds)
{
	pthread_rwlock_wrlock(&lock);
	struct node *gone = take_out(base, kinds);
	pthread_rwlock_unlock(&lock);
	free(gone);
	return gone != NULL;
}

/* Removes the ranges of a context from a tree and returns the rest. */
static struct node *without_context(struct node *tree, uint64_t context)
{
	if (tree == NULL)
		return NULL;
	tree->left = without_context(tree->left, context);
	tree->right = without_context(tree->right, context);
	if (tree->range.context != context ||
	    (tree->range.kind & (PHOS_RANGE_DEVICE | PHOS_RANGE_GLOBAL)) == 0)
		return tree;
	struct node *rest = join(tree->left, tree->right);
	if (tree->range.placed)
		atomic_fetch_sub(&placed, 1);
	free(tree);
	return rest;
}

void phos_range_drop_context(uint64_t context)
{
	pthread_rwlock_wrlock(&lock);
	root = without_context(root, context);
	pthread_rwlock_unlock(&lock);
}

bool phos_range_set_sync_memops(uint64_t address, bool on)
{
	pthread_rwlock_wrlock(&lock);
	struct node *n = holding(address);
	if (n != NULL)
		n->range.sync_memops = on;
	pthread_rwlock_unlock(&lock);
	return n != NULL;
}

void phos_range_set_shown(uint64_t address)
{
	pthread_rwlock_wrlock(&lock);
	struct node *n = holding(address);
	if (n != NULL && !n->range.shown) {
		n->range.shown = true;
		atomic_fetch_add(&shown, 1);
	}
	pthread_rwlock_unlock(&lock);
}

void phos_range_remove_mapped(uint64_t base, uint64_t bytes)
{
	pthread_rwlock_wrlock(&lock);
	struct node *n;
	while ((n = at_or_below(base + (bytes - 1))) != NULL && n->range.base >= base &&
	       n->range.kind == PHOS_RANGE_MAPPED)
		free(take_out(n->range.base, PHOS_RANGE_MAPPED));
	pthread_rwlock_unlock(&lock);
}

void phos_range_set_access(uint64_t base, uint64_t bytes, int device, unsigned access)
{
	unsigned shift = 2 * (unsigned)device;
	pthread_rwlock_wrlock(&lock);
	struct node *n;
	for (uint64_t at = base + bytes;
	     at > base && (n = at_or_below(at - 1)) != NULL && n->range.base >= base;
	     at = n->range.base)
		if (n->range.kind == PHOS_RANGE_MAPPED)
			n->range.access = (n->range.access & ~(UINT64_C(3) << shift)) |
					  (uint64_t)access << shift;
	pthread_rwlock_unlock(&lock);
}
