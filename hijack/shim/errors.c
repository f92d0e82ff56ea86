/* Names and descriptions of the driver's result codes. */
#include "session.h"
#include "zz_calls.h"

struct wording {
	CUresult code;
	const char *name, *text;
};

// Versions of clang-format differ here.
// clang-format off
#define WORDING(code, text)       \
	{                         \
		code, #code, text \
	}
// clang-format on

static const struct wording wordings[] = {
	WORDING(CUDA_SUCCESS, "no error"),
	WORDING(CUDA_ERROR_INVALID_VALUE, "an argument is not valid"),
	WORDING(CUDA_ERROR_OUT_OF_MEMORY, "not enough memory"),
	WORDING(CUDA_ERROR_NOT_INITIALIZED, "the driver is not initialised in this process"),
	WORDING(CUDA_ERROR_DEINITIALIZED, "the driver is shutting down"),
	WORDING(CUDA_ERROR_PROFILER_DISABLED, "profiling is disabled"),
	WORDING(CUDA_ERROR_PROFILER_NOT_INITIALIZED, "the profiler is not initialised"),
	WORDING(CUDA_ERROR_PROFILER_ALREADY_STARTED, "the profiler is already started"),
	WORDING(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "the profiler is already stopped"),
	WORDING(CUDA_ERROR_STUB_LIBRARY, "the driver is a stub library"),
	WORDING(CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is not available"),
	WORDING(CUDA_ERROR_NO_DEVICE, "there is no device to use"),
	WORDING(CUDA_ERROR_INVALID_DEVICE, "no device has this number"),
	WORDING(CUDA_ERROR_DEVICE_NOT_LICENSED, "the device lacks a license"),
	WORDING(CUDA_ERROR_INVALID_IMAGE, "the module's image is not valid"),
	WORDING(CUDA_ERROR_INVALID_CONTEXT, "no valid context is current"),
	WORDING(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "the context is already current"),
	WORDING(CUDA_ERROR_MAP_FAILED, "mapping failed"),
	WORDING(CUDA_ERROR_UNMAP_FAILED, "unmapping failed"),
	WORDING(CUDA_ERROR_ARRAY_IS_MAPPED, "the array is mapped"),
	WORDING(CUDA_ERROR_ALREADY_MAPPED, "the resource is already mapped"),
	WORDING(CUDA_ERROR_NO_BINARY_FOR_GPU, "the image has no code for this device"),
	WORDING(CUDA_ERROR_ALREADY_ACQUIRED, "the resource is already acquired"),
	WORDING(CUDA_ERROR_NOT_MAPPED, "the resource is not mapped"),
	WORDING(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "the resource is not mapped as an array"),
	WORDING(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "the resource is not mapped as a pointer"),
	WORDING(CUDA_ERROR_ECC_UNCORRECTABLE,
		"the device's memory has an error that cannot be corrected"),
	WORDING(CUDA_ERROR_UNSUPPORTED_LIMIT, "the device does not have this limit"),
	WORDING(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "the context is in use by another thread"),
	WORDING(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "the devices cannot reach each other's memory"),
	WORDING(CUDA_ERROR_INVALID_PTX, "the PTX did not compile"),
	WORDING(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "the graphics context is not valid"),
	WORDING(CUDA_ERROR_NVLINK_UNCORRECTABLE, "an NVLink error that cannot be corrected"),
	WORDING(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "no compiler for PTX is available"),
	WORDING(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
		"the PTX is of a newer version than is understood"),
	WORDING(CUDA_ERROR_JIT_COMPILATION_DISABLED, "compiling PTX is disabled"),
	WORDING(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
		"the device does not have this execution affinity"),
	WORDING(CUDA_ERROR_INVALID_SOURCE, "the source is not valid"),
	WORDING(CUDA_ERROR_FILE_NOT_FOUND, "the file was not found"),
	WORDING(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND,
		"a symbol of a shared object was not found"),
	WORDING(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "a shared object could not be initialised"),
	WORDING(CUDA_ERROR_OPERATING_SYSTEM, "the operating system refused something"),
	WORDING(CUDA_ERROR_INVALID_HANDLE, "the handle is not valid"),
	WORDING(CUDA_ERROR_ILLEGAL_STATE, "the object is not in a state for this call"),
	WORDING(CUDA_ERROR_NOT_FOUND, "the name was not found"),
	WORDING(CUDA_ERROR_NOT_READY, "the work has not finished yet"),
	WORDING(CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel used an address that is not its to use"),
	WORDING(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
		"the launch needs more of something than the device has"),
	WORDING(CUDA_ERROR_LAUNCH_TIMEOUT, "the kernel ran for too long"),
	WORDING(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING,
		"the kernel was launched with another texturing mode"),
	WORDING(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
	WORDING(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access is not enabled"),
	WORDING(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is already active"),
	WORDING(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context has been destroyed"),
	WORDING(CUDA_ERROR_ASSERT, "an assertion in a kernel did not hold"),
	WORDING(CUDA_ERROR_TOO_MANY_PEERS, "too many peers"),
	WORDING(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the memory is already registered"),
	WORDING(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the memory is not registered"),
	WORDING(CUDA_ERROR_HARDWARE_STACK_ERROR, "a kernel corrupted or exhausted its stack"),
	WORDING(CUDA_ERROR_ILLEGAL_INSTRUCTION, "a kernel met an illegal instruction"),
	WORDING(CUDA_ERROR_MISALIGNED_ADDRESS, "a kernel used an address that is not aligned"),
	WORDING(CUDA_ERROR_INVALID_ADDRESS_SPACE, "a kernel used an address of the wrong space"),
	WORDING(CUDA_ERROR_INVALID_PC, "a kernel jumped to where there is no code"),
	WORDING(CUDA_ERROR_LAUNCH_FAILED, "a kernel failed, or the process that ran it is gone"),
	WORDING(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
		"the cooperative launch does not fit on the device at once"),
	WORDING(CUDA_ERROR_NOT_PERMITTED, "the call is not permitted here"),
	WORDING(CUDA_ERROR_NOT_SUPPORTED, "the call is not supported"),
	WORDING(CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready"),
	WORDING(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "driver and library are of different versions"),
	WORDING(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
		"the device does not support the compatibility mode"),
	WORDING(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		"the call is not permitted while a stream is captured"),
	WORDING(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
		"the capture was invalidated by an earlier error"),
	WORDING(CUDA_ERROR_STREAM_CAPTURE_MERGE, "the call would merge two captures"),
	WORDING(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture did not begin in this stream"),
	WORDING(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
		"the capture has forked work that was not joined"),
	WORDING(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
		"a dependency would cross the capture's boundary"),
	WORDING(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
		"the call would depend on the default stream implicitly"),
	WORDING(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture"),
	WORDING(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture began in another thread"),
	WORDING(CUDA_ERROR_TIMEOUT, "the time for the operation ran out"),
	WORDING(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
		"the executable graph cannot be updated this way"),
	WORDING(CUDA_ERROR_EXTERNAL_DEVICE, "an external device failed"),
	WORDING(CUDA_ERROR_INVALID_CLUSTER_SIZE, "the cluster's size is not valid"),
	WORDING(CUDA_ERROR_FUNCTION_NOT_LOADED, "the function is not loaded"),
	WORDING(CUDA_ERROR_INVALID_RESOURCE_TYPE, "the resource's type is not valid"),
	WORDING(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
		"the resource's configuration is not valid"),
	WORDING(CUDA_ERROR_UNKNOWN, "an unknown error"),
};

static const struct wording *wording_of(CUresult code)
{
	for (size_t i = 0; i < sizeof wordings / sizeof wordings[0]; i++)
		if (wordings[i].code == code)
			return &wordings[i];
	return NULL;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
	const struct wording *found = wording_of(error);
	if (name == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*name = found == NULL ? NULL : found->name;
	return found == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
	const struct wording *found = wording_of(error);
	if (text == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*text = found == NULL ? NULL : found->text;
	return found == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
