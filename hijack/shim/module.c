/* Modules: the worker reads the image from the program's memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answers.h"
#include "image.h"
#include "log.h"
#include "module.h"
#include "objects.h"
#include "ranges.h"
#include "session.h"
#include "thread.h"

enum jit_option {
	MAX_REGISTERS = 0,
	WALL_TIME = 2,
	INFO_LOG = 3,
	INFO_LOG_BYTES = 4,
	ERROR_LOG = 5,
	ERROR_LOG_BYTES = 6
};

static const struct phos_jit no_options;

/* Returns the value of an option, or NULL if it is not given. */
static void **find_option(const struct phos_jit *jit, enum jit_option option)
{
	if (jit->options == NULL || jit->values == NULL)
		return NULL;
	for (unsigned int i = 0; i < jit->count; i++)
		if (jit->options[i] == (CUjit_option)option)
			return &jit->values[i];
	return NULL;
}

size_t phos_jit_room(const struct phos_jit *jit)
{
	void **room = find_option(jit, ERROR_LOG_BYTES);
	return room == NULL ? 0 : (uintptr_t)*room;
}

unsigned int phos_jit_max_registers(const struct phos_jit *jit)
{
	void **limit = find_option(jit, MAX_REGISTERS);
	return limit == NULL ? 0 : (unsigned int)(uintptr_t)*limit;
}

/* Whether an image that phos_image_find has found is PTX text. */
static bool is_text(const void *image)
{
	uint32_t magic;
	memcpy(&magic, image, 4);
	return magic != 0xba55ed50u && *(const char *)image != '\x7f';
}

void phos_jit_report(const struct phos_jit *jit, const char *log)
{
	void **buffer = find_option(jit, ERROR_LOG), **room = find_option(jit, ERROR_LOG_BYTES);
	void **info_buffer = find_option(jit, INFO_LOG),
	     **info_room = find_option(jit, INFO_LOG_BYTES);
	void **time = find_option(jit, WALL_TIME);
	size_t bytes = strlen(log), most = jit->room != 0 ? jit->room : phos_jit_room(jit);
	bool told = bytes == 0;
	if (buffer != NULL && room != NULL && *buffer != NULL && most > 0) {
		size_t used = bytes < most ? bytes : most - 1;
		memcpy(*buffer, log, used);
		((char *)*buffer)[used] = '\0';
		*room = (void *)used;
		told = true;
	}
	if (info_buffer != NULL && info_room != NULL && *info_buffer != NULL &&
	    (uintptr_t)*info_room > 0) {
		*(char *)*info_buffer = '\0';
		*info_room = NULL;
	}
	if (time != NULL)
		*time = NULL; /* a float of 0 */
	if (!told)
		phos_log(PHOS_WARN, "code is refused: %s", log);
}

CUresult phos_load(const void *image, const struct phos_jit *jit, bool library, uint64_t *handle)
{
	const void *begin;
	size_t bytes;
	char log[PHOS_LOG_BYTES] = "";
	CUresult result = library ? phos_enter() : phos_enter_context();
	if (result != CUDA_SUCCESS)
		return result;
	if (image == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	void *joined = phos_image_join(image, &bytes);
	if (joined != NULL)
		begin = joined;
	else if (!phos_image_find(image, &begin, &bytes))
		return CUDA_ERROR_INVALID_IMAGE;
	unsigned int limit = phos_jit_max_registers(jit);
	if (limit > 0 && is_text(begin)) {
		begin = joined = phos_link_limited(begin, bytes, limit, &bytes);
		if (joined == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = phos_call_moduleLoad((uintptr_t)begin, bytes, library, handle, log, sizeof log);
	free(joined);
	phos_jit_report(jit, log);
	return result;
}

CUresult phos_read_file(const char *path, char **content, size_t *bytes)
{
	struct stat info;
	CUresult result = CUDA_ERROR_FILE_NOT_FOUND;
	int saved = errno;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
		size_t size = (size_t)info.st_size, used = 0;
		char *text = malloc(size + 1);
		ssize_t got = 1;
		while (text != NULL && used < size &&
		       (got = read(fd, text + used, size - used)) > 0)
			used += (size_t)got;
		result = text == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
		if (text != NULL)
			text[used] = '\0';
		*content = text;
		*bytes = used;
	}
	if (fd >= 0)
		close(fd);
	errno = saved;
	return result;
}

CUresult phos_load_file(const char *path, const struct phos_jit *jit, bool library,
			uint64_t *handle)
{
	char *content;
	size_t bytes;
	if (path == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = library ? phos_enter() : phos_enter_context();
	if (result == CUDA_SUCCESS)
		result = phos_read_file(path, &content, &bytes);
	if (result != CUDA_SUCCESS)
		return result;
	result = phos_load(content, jit, library, handle);
	free(content);
	return result;
}

void phos_note_variable(uint64_t module, uint64_t address, uint64_t bytes)
{
	struct phos_context *context = phos_context_find(phos_self.current);
	struct phos_range range = {
		.base = address,
		.bytes = bytes,
		.context = phos_self.current,
		.module = module,
		.kind = phos_in_arena(address) ? PHOS_RANGE_MANAGED : PHOS_RANGE_GLOBAL,
		.device = context == NULL ? 0 : context->device,
		.placed = !phos_in_arena(address) && !phos_in_window(address),
	};
	/* A repeated query finds the range already there. */
	phos_range_add(&range);
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	return module == NULL ? CUDA_ERROR_INVALID_VALUE
			      : phos_load_file(path, &no_options, false, module);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return module == NULL ? CUDA_ERROR_INVALID_VALUE
			      : phos_load(image, &no_options, false, module);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
			    CUjit_option *options, void **values)
{
	struct phos_jit jit = {count, options, values, 0};
	return module == NULL ? CUDA_ERROR_INVALID_VALUE : phos_load(image, &jit, false, module);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	return cuModuleLoadData(module, image);
}

CUresult cuModuleUnload(CUmodule module)
{
	CUresult result = phos_call_cuModuleUnload(module);
	phos_answers_forget();
	return result;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	return phos_call_cuModuleGetFunction(function, module, name);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
			      const char *name)
{
	CUdeviceptr found = 0;
	size_t found_bytes = 0;
	CUresult result = phos_call_cuModuleGetGlobal_v2(&found, &found_bytes, module, name);
	if (result != CUDA_SUCCESS)
		return result;
	phos_note_variable(module, found, found_bytes);
	if (address != NULL)
		*address = found;
	if (bytes != NULL)
		*bytes = found_bytes;
	return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int room, CUmodule module)
{
	uint64_t count;
	if (functions == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return phos_call_listFunctions(module, (uintptr_t)functions, room, &count);
}
