package abi

import "fmt"

// Result is a CUresult, the result of every driver call; 0 is success.
type Result int32

// The driver's result codes that phos itself produces or passes on.
const (
	Success                     Result = 0
	InvalidValue                Result = 1
	OutOfMemory                 Result = 2
	NotInitialized              Result = 3
	Deinitialized               Result = 4
	StubLibrary                 Result = 34
	DeviceUnavailable           Result = 46
	NoDevice                    Result = 100
	InvalidDevice               Result = 101
	InvalidImage                Result = 200
	InvalidContext              Result = 201
	MapFailed                   Result = 205
	UnmapFailed                 Result = 206
	AlreadyMapped               Result = 208
	NoBinaryForGPU              Result = 209
	NotMapped                   Result = 211
	ECCUncorrectable            Result = 214
	UnsupportedLimit            Result = 215
	ContextAlreadyInUse         Result = 216
	PeerAccessUnsupported       Result = 217
	InvalidPTX                  Result = 218
	NVLinkUncorrectable         Result = 220
	JITCompilerNotFound         Result = 221
	UnsupportedPTXVersion       Result = 222
	Contained                   Result = 226
	InvalidSource               Result = 300
	FileNotFound                Result = 301
	SharedObjectSymbolNotFound  Result = 302
	OperatingSystem             Result = 304
	InvalidHandle               Result = 400
	IllegalState                Result = 401
	NotFound                    Result = 500
	NotReady                    Result = 600
	IllegalAddress              Result = 700
	LaunchOutOfResources        Result = 701
	LaunchTimeout               Result = 702
	PeerAccessAlreadyEnabled    Result = 704
	PeerAccessNotEnabled        Result = 705
	PrimaryContextActive        Result = 708
	ContextIsDestroyed          Result = 709
	Assert                      Result = 710
	HostMemoryAlreadyRegistered Result = 712
	HostMemoryNotRegistered     Result = 713
	HardwareStackError          Result = 714
	IllegalInstruction          Result = 715
	MisalignedAddress           Result = 716
	InvalidAddressSpace         Result = 717
	InvalidPC                   Result = 718
	LaunchFailed                Result = 719
	CooperativeLaunchTooLarge   Result = 720
	TensorMemoryLeak            Result = 721
	NotPermitted                Result = 800
	NotSupported                Result = 801
	SystemNotReady              Result = 802
	MPSClientTerminated         Result = 810
	StreamCaptureUnsupported    Result = 900
	StreamCaptureInvalidated    Result = 901
	StreamCaptureMerge          Result = 902
	StreamCaptureUnmatched      Result = 903
	StreamCaptureUnjoined       Result = 904
	StreamCaptureIsolation      Result = 905
	StreamCaptureImplicit       Result = 906
	CapturedEvent               Result = 907
	StreamCaptureWrongThread    Result = 908
	GraphExecUpdateFailure      Result = 910
	ExternalDevice              Result = 911
	Unknown                     Result = 999
)

// Sticky reports whether the error poisons its context: then, as on hardware, every later call of
// the process fails.
func (r Result) Sticky() bool {
	switch r {
	case IllegalAddress, LaunchTimeout, Assert, HardwareStackError, IllegalInstruction,
		MisalignedAddress, InvalidAddressSpace, InvalidPC, LaunchFailed, ECCUncorrectable,
		NVLinkUncorrectable, Contained, TensorMemoryLeak, MPSClientTerminated, ExternalDevice:
		return true
	default:
		return false
	}
}

// Error implements error; use errors.Is(err, abi.OutOfMemory).
func (r Result) Error() string { return r.String() }

func (r Result) String() string {
	if name, ok := resultNames[r]; ok {
		return name
	}
	return fmt.Sprintf("CUDA_ERROR_%d", int32(r))
}
