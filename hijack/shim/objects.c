#include "objects.h"

#include <stdlib.h>

#include "session.h"

#define PAGE_OBJECTS 4096
#define PAGES        65536

struct page {
	_Atomic uint32_t removed;
	_Atomic(void *) objects[PAGE_OBJECTS];
};

/* Indices are never reused, so a page is freed once all its objects were created and removed. */
static _Atomic(struct page *) tables[PHOS_KINDS][PAGES];

static _Atomic(struct page *) *page_of(uint64_t handle)
{
	unsigned kind = phos_kind_of(handle);
	uint32_t page = (uint32_t)handle / PAGE_OBJECTS;
	if (kind == PHOS_KIND_NONE || page >= PAGES)
		return NULL;
	return &tables[kind][page];
}

void *phos_object_find(uint64_t handle)
{
	_Atomic(struct page *) *at = page_of(handle);
	struct page *page = at == NULL ? NULL : atomic_load_explicit(at, memory_order_acquire);
	if (page == NULL)
		return NULL;
	return atomic_load_explicit(&page->objects[(uint32_t)handle % PAGE_OBJECTS],
				    memory_order_acquire);
}

static struct page *make_page(_Atomic(struct page *) *at)
{
	struct page *none = NULL, *fresh = calloc(1, sizeof *fresh);
	if (fresh == NULL)
		return NULL;
	if (atomic_compare_exchange_strong(at, &none, fresh))
		return fresh;
	free(fresh);
	return none;
}

void *phos_object_enter(uint64_t handle, void *object)
{
	_Atomic(struct page *) *at = page_of(handle);
	if (at == NULL)
		return NULL;
	struct page *page = atomic_load_explicit(at, memory_order_acquire);
	if (page == NULL)
		page = make_page(at);
	if (page == NULL)
		return NULL;
	void *first = NULL;
	if (atomic_compare_exchange_strong(&page->objects[(uint32_t)handle % PAGE_OBJECTS], &first,
					   object))
		return object;
	return first;
}

void *phos_object_remove(uint64_t handle)
{
	_Atomic(struct page *) *at = page_of(handle);
	struct page *page = at == NULL ? NULL : atomic_load_explicit(at, memory_order_acquire);
	if (page == NULL)
		return NULL;
	void *object = atomic_exchange(&page->objects[(uint32_t)handle % PAGE_OBJECTS], NULL);
	if (object != NULL && atomic_fetch_add(&page->removed, 1) + 1 == PAGE_OBJECTS) {
		atomic_store(at, NULL);
		free(page);
	}
	return object;
}

const struct phos_device *phos_device_find(int ordinal)
{
	_Static_assert(sizeof(struct phos_device) <= PHOS_DEVICE_BYTES, "device");
	if (phos.file == NULL || ordinal < 0 || (uint32_t)ordinal >= phos.device_count)
		return NULL;
	return (const struct phos_device *)(void *)(phos.file + PHOS_DEVICE_TABLE +
						    (size_t)ordinal * PHOS_DEVICE_BYTES);
}
