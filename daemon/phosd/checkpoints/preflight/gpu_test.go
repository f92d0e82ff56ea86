package preflight

import (
	"context"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/wire"
)

// said are obstacles as an operator reads them, the harmless ones marked.
func said(found []ckpt.Obstacle) string {
	var lines []string
	for _, o := range found {
		line := (&ckpt.ObstacleError{Obstacles: []ckpt.Obstacle{o}}).Error()
		if o.Harmless {
			line = "note: " + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestOtherGPUs: what is said of an image of an A100 on other GPUs, word by word.
func TestOtherGPUs(t *testing.T) {
	const gib = 1 << 30
	binary := image.Code{Name: "library 2", Targets: []string{"sm_80"}, Kernels: []string{"gemm"}, Modules: 1}
	with := func(name string, targets ...string) image.Code {
		return image.Code{Name: name, Targets: targets, Kernels: []string{"a", "b"}, Modules: 3}
	}
	for _, test := range []struct {
		name string
		code []image.Code
		here func(*gpu.DeviceInfo)
		had  func(*image.Device)
		want string
	}{
		{name: "the same", code: []image.Code{binary}},
		{
			name: "no PTX", code: []image.Code{binary}, here: func(g *gpu.DeviceInfo) { h100(g) },
			want: "GPU 0: library 2 (kernel gemm) does not run on it: it is machine code for sm_80, and no PTX; here is " +
				"NVIDIA H100, of compute capability 9.0, " +
				"and pid 8388608 was started on NVIDIA A100, of 8.0 (restore on NVIDIA A100 or another GPU of compute " +
				"capability 8.0, or build the program with PTX)",
		},
		{
			name: "PTX", code: []image.Code{with("module 1", "compute_80", "sm_80")}, here: func(g *gpu.DeviceInfo) { h100(g) },
			want: "note: GPU 0: here is NVIDIA H100, of compute capability 9.0, and pid 8388608 was started on NVIDIA " +
				"A100, of 8.0; all code that the program has loaded runs on both",
		},
		{
			name: "PTX that is too new", code: []image.Code{with("module 1", "compute_80")}, here: func(g *gpu.DeviceInfo) {
				*g = device(7, 5, 40*gib)
				g.Name = "Tesla T4"
			},
			want: "GPU 0: module 1 (kernels a, b) and 2 others like it does not run on it: it is PTX for compute_80; here " +
				"is Tesla T4, of compute capability 7.5, " +
				"and pid 8388608 was started on NVIDIA A100, of 8.0 (restore on NVIDIA A100 or a later GPU)",
		},
		{
			name: "a software GPU", code: []image.Code{binary}, here: func(g *gpu.DeviceInfo) {
				g.PTXOnly, g.Name = true, "phos software GPU"
			},
			want: "GPU 0: library 2 (kernel gemm) does not run on it: it is machine code for sm_80, which no software GPU " +
				"executes, and no PTX; " +
				"here is phos software GPU, of compute capability 8.0, and pid 8388608 was started on NVIDIA A100, of 8.0 " +
				"(restore where phosd has real GPUs like NVIDIA A100, or build the program with PTX)",
		},
		{
			name: "an older major version of the driver", code: []image.Code{}, had: func(d *image.Device) { d.CUDA = 13000 },
			want: "GPU 0: its driver serves CUDA 12.4, and pid 8388608 was started on one that serves 13.0 (install a " +
				"driver that serves CUDA 13.0 or later)",
		},
		{
			name: "an older minor version of the driver", code: []image.Code{}, had: func(d *image.Device) { d.CUDA = 12080 },
			want: "note: GPU 0: its driver serves CUDA 12.4, and pid 8388608 was started on one that serves 12.8: code " +
				"that is too new for it will be refused by it",
		},
		{name: "a newer driver", code: []image.Code{}, had: func(d *image.Device) { d.CUDA = 11080 }},
		{
			name: "less memory, enough", code: []image.Code{}, here: func(g *gpu.DeviceInfo) { g.MemoryBytes = 24 * gib },
			want: "note: GPU 0: it has 24 GiB of memory, and pid 8388608 was started with 40 GiB: what the program has " +
				"fits, what it gets later may not",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			here, m := machine(), saved(t)
			here.GPUs[0] = device(8, 0, 40*gib)
			here.GPUs[0].Name, here.GPUs[0].DriverVersion = "NVIDIA A100", 12040
			half := m.Processes[0].GPU
			half.Devices[0] = image.Device{
				Name:        "NVIDIA A100",
				Capability:  "8.0",
				MemoryBytes: 40 * gib,
				UsedBytes:   20 * gib,
			}
			half.Code = test.code
			if test.here != nil {
				test.here(&here.GPUs[0])
			}
			if test.had != nil {
				test.had(&half.Devices[0])
			}
			if got := said(here.gpuObstacles(m.Processes[0], GPUs{})); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func h100(g *gpu.DeviceInfo) {
	*g = device(9, 0, 80<<30)
	g.Name = "NVIDIA H100"
}

// TestRoom checks that memory is summed over processes, and that a program that has just ended may
// still release some.
func TestRoom(t *testing.T) {
	const gib = 1 << 30
	m := &image.Manifest{Processes: []image.Process{
		{GPU: &image.GPUHalf{Devices: []image.Device{{UsedBytes: 4 * gib}, {UsedBytes: gib}}}},
		{GPU: &image.GPUHalf{Devices: []image.Device{{UsedBytes: 3 * gib}, {}}}},
		{GPU: &image.GPUHalf{Devices: []image.Device{{}}, MemoryBytes: gib}}, // of an older version
		{},
	}}
	here := machine()
	here.GPUs = append(here.GPUs, here.GPUs[0])
	here.GPUs[0].Name = "A"
	for _, test := range []struct {
		name  string
		free  []uint64 // at each look
		total uint64
		want  string
	}{
		{"enough", []uint64{8 * gib}, 8 * gib, ""},
		{"enough in a moment", []uint64{0, 7 * gib, 8 * gib}, 8 * gib, ""},
		{
			"taken", []uint64{7*gib + 1<<29}, 9 * gib, "GPU 0: the image needs 8 GiB of its memory, and 7680 MiB of 9 GiB " +
				"are free (A) " +
				"(end other programs that use it, or save them with pos_cli --dump; pos_cli --status lists them)",
		},
		{
			"too small",
			[]uint64{6 * gib},
			6 * gib,
			"GPU 0: the image needs 8 GiB of its memory, and 6 GiB of 6 GiB are free (A) (restore on a GPU with more memory)",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			looks := 0
			here.Room = func(_ context.Context, ordinal int) (free, total uint64) {
				if ordinal > 0 {
					return gib, gib
				}
				looks++
				return test.free[min(looks, len(test.free))-1], test.total
			}
			if got := said(here.RoomObstacles(t.Context(), m, GPUs{})); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestVisibleGPUs: a process gets the GPUs that it had, if they exist here, and its memory counts
// there.
func TestVisibleGPUs(t *testing.T) {
	const gib = 1 << 30
	saved := func(ordinals ...int) *image.Manifest {
		half := &image.GPUHalf{Wire: wire.Version, Code: []image.Code{}}
		for _, ordinal := range ordinals {
			half.Devices = append(half.Devices, image.Device{Ordinal: ordinal, MemoryBytes: 8 * gib, UsedBytes: 6 * gib})
		}
		return &image.Manifest{Processes: []image.Process{{PID: 7, GPU: half}}}
	}
	for _, test := range []struct {
		name string
		had  []int
		free []uint64
		want string
	}{
		{"the second has room", []int{1}, []uint64{0, 8 * gib}, ""},
		{"the second has none", []int{1}, []uint64{8 * gib, 0}, "GPU 1"},
		{"there is one", []int{1}, []uint64{8 * gib}, ""},
		{"both, the other way round", []int{1, 0}, []uint64{8 * gib, 0}, "GPU 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			machine := &Machine{
				GPUs: make([]gpu.DeviceInfo, len(test.free)),
				Room: func(_ context.Context, ordinal int) (free, total uint64) { return test.free[ordinal], 8 * gib },
			}
			for i := range machine.GPUs {
				machine.GPUs[i].MemoryBytes = 8 * gib
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // programs that end here are not waited for
			m := saved(test.had...)
			got := said(machine.RoomObstacles(ctx, m, GPUs{}))
			if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if got := said(ckpt.Serious(machine.gpuObstacles(m.Processes[0], GPUs{}))); got != "" {
				t.Errorf("got %q, want no obstacle", got)
			}
		})
	}
}
