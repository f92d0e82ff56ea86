/* Memory of other processes. A handle holds a token of the exporting session; any process of the
 * same user that has the token may open it. */
#include "objects.h"
#include "ranges.h"
#include "session.h"
#include "thread.h"
#include "zz_calls.h"

/* The first word of a handle. */
#define MEMORY_MAGIC UINT64_C(0x6d656d736f687000)
#define EVENT_MAGIC  UINT64_C(0x747665736f687000)

enum { LAZY_PEER_ACCESS = 1 };

struct token {
	uint64_t magic;
	uint64_t exporter[2], key[2];
	uint64_t zero[3];
};
_Static_assert(sizeof(struct token) == sizeof(CUipcMemHandle), "a token fills a handle");

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	struct token token = {.magic = MEMORY_MAGIC};
	if (handle == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_ipcExport(address, &token.exporter[0], &token.exporter[1],
					      &token.key[0], &token.key[1]);
	if (result == CUDA_SUCCESS)
		memcpy(handle, &token, sizeof token);
	return result;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	struct token token;
	uint64_t bytes = 0;
	if (address == NULL || (flags & ~(unsigned)LAZY_PEER_ACCESS) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&token, &handle, sizeof token);
	if (token.magic != MEMORY_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult result = phos_call_ipcOpen(token.exporter[0], token.exporter[1], token.key[0],
					    token.key[1], address, &bytes);
	if (result != CUDA_SUCCESS)
		return result;
	struct phos_context *context = phos_context_find(phos_self.current);
	struct phos_range range, known;
	range = (struct phos_range){
		.base = *address,
		.bytes = bytes,
		.kind = PHOS_RANGE_IMPORTED,
		.context = phos_self.current,
		.device = context == NULL ? 0 : context->device,
	};
	if (phos_range_find(*address, &known) && known.kind == PHOS_RANGE_IMPORTED)
		return CUDA_SUCCESS; /* opened again */
	return phos_range_add(&range) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	int closed = 0;
	CUresult result = phos_call_ipcClose(address, &closed);
	if (result == CUDA_SUCCESS && closed)
		phos_range_remove(address, PHOS_RANGE_IMPORTED);
	return result;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
	struct token token = {.magic = EVENT_MAGIC};
	if (handle == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = phos_call_ipcExportEvent(event, &token.exporter[0], &token.exporter[1],
						   &token.key[0], &token.key[1]);
	if (result == CUDA_SUCCESS)
		memcpy(handle, &token, sizeof token);
	return result;
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
	struct token token;
	if (event == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&token, &handle, sizeof token);
	if (token.magic != EVENT_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult result = phos_call_ipcOpenEvent(token.exporter[0], token.exporter[1], token.key[0],
						 token.key[1], event);
	return result == CUDA_SUCCESS ? phos_event_enter(*event) : result;
}
