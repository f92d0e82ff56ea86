package abi

// FunctionAttribute is a CUfunction_attribute, an index of gpu.FunctionInfo.Attributes.
type FunctionAttribute int32

// The function attributes. Those from FuncMaxDynamicSharedBytes on can be set, except
// FuncClusterSizeMustBeSet.
const (
	FuncMaxThreadsPerBlock            FunctionAttribute = 0
	FuncSharedBytes                   FunctionAttribute = 1
	FuncConstBytes                    FunctionAttribute = 2
	FuncLocalBytes                    FunctionAttribute = 3
	FuncNumRegs                       FunctionAttribute = 4
	FuncPTXVersion                    FunctionAttribute = 5
	FuncBinaryVersion                 FunctionAttribute = 6
	FuncCacheModeCA                   FunctionAttribute = 7
	FuncMaxDynamicSharedBytes         FunctionAttribute = 8
	FuncPreferredSharedCarveout       FunctionAttribute = 9
	FuncClusterSizeMustBeSet          FunctionAttribute = 10
	FuncRequiredClusterWidth          FunctionAttribute = 11
	FuncRequiredClusterHeight         FunctionAttribute = 12
	FuncRequiredClusterDepth          FunctionAttribute = 13
	FuncNonPortableClusterSizeAllowed FunctionAttribute = 14
	FuncClusterSchedulingPolicy       FunctionAttribute = 15
)
