package launch

import "testing"

// TestIsModel compares models as people write them with names that NVIDIA's driver reports.
func TestIsModel(t *testing.T) {
	names := map[string]string{
		"a100-40": "NVIDIA A100-SXM4-40GB", "a100-80": "NVIDIA A100-SXM4-80GB", "pcie": "NVIDIA A100 80GB PCIe",
		"h100": "NVIDIA H100 80GB HBM3", "h200": "NVIDIA H200", "3090": "NVIDIA GeForce RTX 3090", "t4": "Tesla T4",
		"t400": "NVIDIA T400 4GB", "a10": "NVIDIA A10", "v100": "Tesla V100-SXM2-16GB", "l4": "NVIDIA L4",
		"l40": "NVIDIA L40S", "1050": "NVIDIA GeForce GTX 1050", "6000": "Quadro RTX 6000", "p100": "Tesla P100-PCIE-16GB",
	}
	for model, want := range map[string][]string{
		"a100_40gb": {"a100-40"}, "a100-80gb": {"a100-80", "pcie"}, "A100": {"a100-40", "a100-80", "pcie"},
		"h100": {"h100"}, "h200": {"h200"}, "rtx3090": {"3090"}, "RTX 3090": {"3090"}, "t4": {"t4"}, "l4": {"l4"},
		"a10": {"a10"}, "v100": {"v100"}, "gtx1050": {"1050"}, "rtx6000": {"6000"}, "p100": {"p100"}, "": nil, "-": nil,
		"h100-40gb": nil,
	} {
		matches := make(map[string]bool)
		for _, each := range want {
			matches[each] = true
		}
		for key, name := range names {
			if got := IsModel(model, name); got != matches[key] {
				t.Errorf("IsModel(%q, %q): got %v, want %v", model, name, got, matches[key])
			}
		}
	}
}
