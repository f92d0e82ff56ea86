package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// TestSubstitute chooses the software GPU for several reasons. A machine with an NVIDIA GPU or a
// failing driver must get a warning, any other none.
func TestSubstitute(t *testing.T) {
	absent := fmt.Errorf("no NVIDIA driver: libnvidia-ml.so.1 is not found; install it (%w: libcuda.so.1 is %w)",
		cudadrv.ErrLibrary, cudadrv.ErrAbsent)
	failing := fmt.Errorf("%w: libcuda.so.1: cuInit: %w", cudadrv.ErrLibrary, abi.Unknown)
	for _, test := range []struct {
		name     string
		err      error
		hardware []string
		warns    string
	}{
		{"neither driver nor GPU", absent, nil, ""},
		{"no cgo", cudadrv.ErrNoCgo, nil, ""},
		{"a GPU without a driver", absent, []string{"PCI device 0000:3b:00.0"}, "PCI device 0000:3b:00.0"},
		{"a driver that fails", failing, nil, "CUDA_ERROR_UNKNOWN"},
		{
			"a driver without GPUs", fmt.Errorf("%w: cuInit: %w", cudadrv.ErrLibrary, abi.NoDevice), nil,
			"CUDA_ERROR_NO_DEVICE",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			got := substitute(test.err, test.hardware, slog.New(slog.NewTextHandler(&log, nil)))
			if got.offer != withoutGPUs || !errors.Is(got.missing, test.err) {
				t.Errorf("got %+v, want %s because of %v", got, withoutGPUs, test.err)
			}
			warns := got.unused != nil
			if warns != (test.warns != "") || warns && !strings.Contains(got.unused.Error(), test.warns) {
				t.Errorf("the warning is %v, want one with %q", got.unused, test.warns)
			}
			if strings.Contains(log.String(), "level=WARN") != warns {
				t.Errorf("the log has\n%s", log.String())
			}
		})
	}
	devices := make([]gpu.DeviceInfo, 1)
	if got, want := substitute(absent, nil, slog.New(slog.DiscardHandler)).serves(devices),
		"1 software GPU (no NVIDIA driver: libnvidia-ml.so.1 is not found)"; got != want {
		t.Errorf("serves %q, want %q", got, want)
	}
	if got, want := (choice{offer: "soft:2"}).serves(make([]gpu.DeviceInfo, 2)), "2 software GPUs"; got != want {
		t.Errorf("serves %q, want %q", got, want)
	}
	if got, want := (choice{offer: "soft:2,blank"}).serves(make([]gpu.DeviceInfo, 2)),
		"2 blank GPUs: machine code is taken and computes nothing"; got != want {
		t.Errorf("serves %q, want %q", got, want)
	}
	devices[0].Name = "NVIDIA H200"
	if got, want := (choice{offer: "cuda"}).serves(devices), "1 GPU (NVIDIA H200)"; got != want {
		t.Errorf("serves %q, want %q", got, want)
	}
}

// TestNVIDIAHardware finds device nodes of GPUs, and display controllers of NVIDIA: not its network
// cards and sound devices, and no control nodes.
func TestNVIDIAHardware(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{"dev/nvidiactl": "", "dev/nvidia-uvm": ""}
	device := func(address, vendor, class string) {
		files["sys/bus/pci/devices/"+address+"/vendor"] = vendor + "\n"
		files["sys/bus/pci/devices/"+address+"/class"] = class + "\n"
	}
	device("0000:00:01.0", "0x8086", "0x030000")
	device("0000:3b:00.1", "0x10de", "0x040300") // its sound device
	device("0000:5e:00.0", "0x10de", "0x020000")
	write := func() {
		for name, content := range files {
			path := filepath.Join(root, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
				os.WriteFile(path, []byte(content), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	if got := nvidiaHardware(root); len(got) > 0 {
		t.Errorf("got %v, want none", got)
	}
	device("0000:3b:00.0", "0x10de", "0x030000")
	device("0000:af:00.0", "0x10de", "0x030200")
	files["dev/nvidia0"], files["dev/nvidia12"] = "", ""
	write()
	want := []string{"/dev/nvidia0", "/dev/nvidia12", "PCI device 0000:3b:00.0", "PCI device 0000:af:00.0"}
	if got := nvidiaHardware(root); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
