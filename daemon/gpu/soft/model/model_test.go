package model

import (
	"errors"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
)

func TestParse(t *testing.T) {
	standard := Spec{Count: 1, MemoryBytes: 8 << 30, Name: defaultName, CC: 90}
	for text, change := range map[string]func(s *Spec){
		"soft":                         func(*Spec) {},
		"soft:1":                       func(*Spec) {},
		"soft:24":                      func(s *Spec) { s.Count = 24 },
		"soft:2,deterministic":         func(s *Spec) { s.Count, s.Deterministic = 2, true },
		"soft:1,memory=512MiB,cores=3": func(s *Spec) { s.MemoryBytes, s.Cores = 512<<20, 3 },
		"soft:1,name=My GPU,cc=7.5":    func(s *Spec) { s.Name, s.CC = "My GPU", 75 },
		"soft:1,cc=12.0":               func(s *Spec) { s.CC = 120 },
		"soft:1,cuda=12.8":             func(s *Spec) { s.Driver = 12080 },
		"soft:1,cuda=13.0":             func(s *Spec) { s.Driver = 13000 },
		"soft:1,marks=off":             func(s *Spec) { s.Untracked = true },
		"soft:1,marks=on":              func(*Spec) {},
		"soft:1,blank":                 func(s *Spec) { s.Blank, s.Name = true, defaultName+" (blank: computes nothing)" },
	} {
		want := standard
		change(&want)
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, part := range map[string]string{
		"":                      "soft:N",
		"cuda":                  "soft:N",
		"soft:0":                "1 to 24",
		"soft:25":               "1 to 24",
		"soft:x":                "1 to 24",
		"soft:1,":               `option ""`,
		"soft:1,speed=9":        `option "speed=9": no such option; options are: deterministic, memory=SIZE`,
		"soft:1,deterministic=": "takes no value",
		"soft:1,memory=8":       "16MiB",
		"soft:1,memory=17MiB":   "even in MiB",
		"soft:1,memory=9999GiB": "1024GiB",
		"soft:1,cc=9":           "7.0, 7.5, 8.0",
		"soft:1,cc=6.1":         "7.0, 7.5, 8.0",
		"soft:1,cores=0":        "1 to 1024",
		"soft:1,cuda=13.1":      "12.0 to 13.0",
		"soft:1,cuda=11.8":      "12.0 to 13.0",
		"soft:1,cuda=12":        "12.0 to 13.0",
		"soft:1,name=":          "a name has",
		"soft:1,marks":          "on or off",
		"soft:1,blank=on":       "takes no value",
	} {
		if _, err := Parse(text); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %v does not contain %q", text, err, part)
		}
	}
}

func TestDevices(t *testing.T) {
	spec, err := Parse("soft:24,memory=2GiB,cc=8.6")
	if err != nil {
		t.Fatal(err)
	}
	buses, ids := map[int32]bool{}, map[[16]byte]bool{}
	for i, d := range spec.Devices() {
		if d.MemoryBytes != 2<<30 || d.Name != defaultName || d.Attributes[abi.AttrComputeCapabilityMajor] != 8 ||
			d.Attributes[abi.AttrComputeCapabilityMinor] != 6 {
			t.Errorf("device %d: %+v", i, d)
		}
		buses[d.Attributes[abi.AttrPCIBusID]], ids[d.UUID] = true, true
		// Attributes 141 and 142 were added by a later driver.
		for n := abi.AttrMaxThreadsPerBlock; n <= abi.AttrHostNUMAMultinodeIPCSupported; n++ {
			if _, ok := d.Attributes[n]; !ok && n != 141 && n != 142 {
				t.Errorf("device %d: attribute %d is missing", i, n)
			}
		}
	}
	if len(buses) != 24 || len(ids) != 24 {
		t.Errorf("got %d distinct buses and %d distinct UUIDs, want 24 of each", len(buses), len(ids))
	}
	if again := spec.Devices()[3].UUID; again != spec.Devices()[3].UUID || again[6]>>4 != 8 || again[8]>>6 != 2 {
		t.Errorf("UUID: got % x, want the same name-based UUID each time", again)
	}
}

// TestActiveBlocks compares with the vendor's occupancy calculator.
func TestActiveBlocks(t *testing.T) {
	for _, c := range []struct{ cc, threads, shared, registers, want int }{
		{90, 256, 0, 32, 8},
		{90, 1024, 0, 64, 1},
		{90, 1024, 0, 32, 2},
		{90, 256, 0, 96, 2},
		{90, 128, 100 << 10, 32, 2},
		{90, 128, 227 << 10, 32, 1},
		{90, 32, 0, 32, 32},
		{90, 33, 0, 32, 32},
		{86, 32, 0, 32, 16},
		{86, 512, 0, 32, 3},
		{89, 32, 0, 32, 24},
		{80, 64, 20 << 10, 32, 7},
		{75, 256, 0, 32, 4},
		{75, 64, 40 << 10, 32, 1},
		{75, 1024, 0, 128, 0},
	} {
		if got := limitsOf(c.cc).ActiveBlocks(c.threads, c.shared, c.registers); got != c.want {
			t.Errorf("%+v: got %d, want %d", c, got, c.want)
		}
	}
}
