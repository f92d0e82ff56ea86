package humanize

import "testing"

// TestKernel has symbols with what c++filt says of them, up to the parameters and with <...> for
// the arguments of templates.
func TestKernel(t *testing.T) {
	for symbol, want := range map[string]string{
		"matmul":                  "matmul",
		"_Z7stencilPfS_i":         "stencil",
		"_Z6kernelv":              "kernel",
		"_ZN3app4impl4fillEPfi":   "app::impl::fill",
		"_ZN12_GLOBAL__N_13addEi": "(anonymous namespace)::add",
		"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_": "at::native::vectorized_elementwise_kernel<...>",
		"_Z3addIfEvPT_i": "add<...>",
		// Not understood, so as they are:
		"_Z":                      "_Z",
		"_Z9short":                "_Z9short",
		"_ZN3app":                 "_ZN3app",
		"_ZNK3app4kernelclEv":     "_ZNK3app4kernelclEv",
		"_Z0":                     "_Z0",
		"":                        "",
		"_ZN1aplE1bS_":            "_ZN1aplE1bS_",
		"_Z99999999999999999999x": "_Z99999999999999999999x",
	} {
		if got := Kernel(symbol); got != want {
			t.Errorf("%q: got %q, want %q", symbol, got, want)
		}
	}
}

func TestKernels(t *testing.T) {
	text, want := "kernel _Z7stencilPfS_i, then fill_Z7, failed", "kernel stencil, then fill_Z7, failed"
	if got := Kernels(text); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
