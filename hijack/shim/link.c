/*
 * The linker. The worker checks each text when it is added; the shim keeps it. The resulting
 * "cubin" is a container of the texts, which module loading unpacks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "module.h"
#include "session.h"

#define LIVE 0x4b4e494c534f4850u /* first word of a state, to detect stale ones */

enum input_type { INPUT_PTX = 1 };

struct link {
	uint64_t live;
	struct phos_jit jit;
	char *container;
	size_t bytes;
	unsigned int max_registers; /* 0: no limit; added to the container when it is complete */
};

static struct link *find(CUlinkState state)
{
	struct link *link = (struct link *)(uintptr_t)state;
	return link != NULL && link->live == LIVE ? link : NULL;
}

/* Begins an empty container. */
static bool begin(struct link *link)
{
	uint32_t version = PHOS_LINK_VERSION;
	link->container = calloc(1, PHOS_LINK_HEADER_BYTES);
	if (link->container == NULL)
		return false;
	memcpy(link->container, PHOS_LINK_MAGIC, 8);
	memcpy(link->container + 8, &version, 4);
	link->bytes = PHOS_LINK_HEADER_BYTES;
	return true;
}

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values,
			 CUlinkState *state)
{
	if (state == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	struct link *link = calloc(1, sizeof *link);
	if (link == NULL || !begin(link)) {
		free(link);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	link->live = LIVE;
	link->jit = (struct phos_jit){count, options, values, 0};
	link->jit.room = phos_jit_room(&link->jit);
	link->max_registers = phos_jit_max_registers(&link->jit);
	*state = (uintptr_t)link;
	return CUDA_SUCCESS;
}

/* Appends one text to the container. */
static CUresult append(struct link *link, const char *text, uint64_t bytes)
{
	size_t padded = (bytes + 7) & ~(uint64_t)7;
	char *grown = realloc(link->container, link->bytes + 8 + padded);
	if (grown == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(grown + link->bytes, &bytes, 8);
	memcpy(grown + link->bytes + 8, text, bytes);
	memset(grown + link->bytes + 8 + bytes, 0, padded - bytes);
	link->container = grown;
	link->bytes += 8 + padded;
	uint32_t texts;
	memcpy(&texts, grown + 12, 4);
	texts++;
	memcpy(grown + 12, &texts, 4);
	return CUDA_SUCCESS;
}

/* Adds the limit of registers as a text. Only the software GPU knows its pragma; others ignore it.
 */
static CUresult append_limit(struct link *link)
{
	char text[128];
	int bytes = snprintf(text, sizeof text,
			     ".version 7.0\n.target sm_70\n.address_size 64\n"
			     ".pragma \"phos_maxnreg %u\";\n",
			     link->max_registers);
	if (link->max_registers == 0)
		return CUDA_SUCCESS;
	link->max_registers = 0;
	return append(link, text, (uint64_t)bytes);
}

void *phos_link_limited(const char *text, size_t bytes, unsigned int max_registers,
			size_t *container_bytes)
{
	struct link link = {.max_registers = max_registers};
	if (!begin(&link))
		return NULL;
	if (append(&link, text, bytes) != CUDA_SUCCESS || append_limit(&link) != CUDA_SUCCESS) {
		free(link.container);
		return NULL;
	}
	*container_bytes = link.bytes;
	return link.container;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t bytes,
			  const char *name, unsigned int count, CUjit_option *options,
			  void **values)
{
	char log[PHOS_LOG_BYTES] = "";
	struct link *link = find(state);
	(void)name;
	(void)count;
	(void)options;
	(void)values;
	if (link == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	if (data == NULL || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != INPUT_PTX)
		return phos_refuse("cuLinkAddData of anything but PTX");
	bytes = strnlen(data, bytes);
	CUresult result = phos_call_linkCheck((uintptr_t)data, bytes, log, sizeof log);
	phos_jit_report(&link->jit, log);
	return result == CUDA_SUCCESS ? append(link, data, bytes) : result;
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
			  unsigned int count, CUjit_option *options, void **values)
{
	char *content;
	size_t bytes;
	if (path == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_read_file(path, &content, &bytes);
	if (result != CUDA_SUCCESS)
		return result;
	result = cuLinkAddData_v2(state, type, content, bytes, path, count, options, values);
	free(content);
	return result;
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes)
{
	struct link *link = find(state);
	if (link == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	if (image == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (link->bytes == PHOS_LINK_HEADER_BYTES)
		return CUDA_ERROR_INVALID_IMAGE;
	CUresult result = append_limit(link);
	if (result != CUDA_SUCCESS)
		return result;
	phos_jit_report(&link->jit, "");
	*image = link->container;
	if (bytes != NULL)
		*bytes = link->bytes;
	return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
	struct link *link = find(state);
	if (link == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	link->live = 0;
	free(link->container);
	free(link);
	return CUDA_SUCCESS;
}
