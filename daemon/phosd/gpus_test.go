package phosd_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/phosd/devices"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/daemon/worker"
	"github.com/phos-gpu/phos/hijack/wire"
)

// madeOffer begins what "gpus" says where a file stands for NVIDIA's driver; the file's path
// follows.
const madeOffer = "made:"

// made is what such a file holds: what the driver says, or why it does not, and what it tells of
// once.
type made struct {
	Inventory *inventory.Inventory
	Failed    string
	Event     *inventory.Event
}

// madeDriver is that driver.
type madeDriver struct {
	path string
	tell func(inventory.Event)
	told chan struct{} // full once the event is told of
}

func openMadeDriver(gpus string, tell func(inventory.Event)) devices.Driver {
	path, is := strings.CutPrefix(gpus, madeOffer)
	if !is {
		return nil
	}
	return &madeDriver{path: path, tell: tell, told: make(chan struct{}, 1)}
}

func (d *madeDriver) Inventory(context.Context) (*inventory.Inventory, error) {
	text, err := os.ReadFile(d.path)
	if err != nil {
		return nil, err
	}
	var found made
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, err
	}
	if found.Event != nil {
		select {
		case d.told <- struct{}{}:
			d.tell(*found.Event)
		default:
		}
	}
	if found.Failed != "" {
		return nil, io.ErrUnexpectedEOF
	}
	return found.Inventory, nil
}

func (d *madeDriver) Close() error { return nil }

// openIdle is for workers. Under a made driver each takes a little memory.
func openIdle(options worker.BackendOptions) (gpu.Backend, error) {
	if strings.HasPrefix(options.Gpus, madeOffer) {
		return idle{}, options.Ledger.Reserve(0, options.Slot, 1<<20)
	}
	return idle{}, nil
}

// idleUUID is that of the idle GPU.
const idleUUID = "GPU-00000000-0000-0000-0000-000000000000"

// driverLab is a phosd over a driver that says what the test wants.
func driverLab(t *testing.T, first made) (l *lab, says func(made)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "driver.json")
	says = func(what made) {
		t.Helper()
		text, err := json.Marshal(what)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	says(first)
	return newLab(t, func(c *config.Config) {
		c.Gpus.Offer = madeOffer + path
		c.Metrics.Listen = "unix:" + filepath.Join(c.RuntimeDir, "metrics.sock")
	}), says
}

// well is a GPU that nothing is wrong with, and which the given processes use.
func well(processes ...inventory.Process) *inventory.Inventory {
	celsius := uint32(41)
	return &inventory.Inventory{DriverVersion: "550.54.15", CUDAVersion: 12040, GPUs: []inventory.GPU{{
		Index: 3, Name: "made", UUID: idleUUID, BusID: "00000000:00:00.0", TemperatureCelsius: &celsius, Processes: processes,
		Memory: &inventory.Memory{TotalBytes: 1 << 30, UsedBytes: 700 << 20, FreeBytes: 300 << 20},
	}}}
}

func TestHardwareStatus(t *testing.T) {
	l, says := driverLab(t, made{Inventory: well()})
	p := l.run(nil)
	p.says("live")
	workerPID := l.programOf(p).GetWorkerPid()
	held := uint64(5 << 20)
	stranger := l.run(func(c *exec.Cmd) { c.Path, c.Args = "/bin/sleep", []string{"sleep", "1000"} })
	says(
		made{
			Inventory: well(
				inventory.Process{PID: workerPID},
				inventory.Process{PID: uint32(stranger.Process.Pid), UsedBytes: &held},
			),
		},
	)
	status := l.status()
	if status.GetDaemon().GetDriverVersion() != "550.54.15" || status.GetDaemon().GetCudaVersion() != 12040 ||
		status.GetDaemon().GetDriverError() != "" {
		t.Errorf("daemon: %v", status.GetDaemon())
	}
	g := status.GetGpus()[0]
	h := g.GetHardware()
	if g.GetPrograms() != 1 || len(g.GetPids()) != 1 || g.GetPids()[0] != uint32(p.Process.Pid) ||
		g.GetUsedBytes() != 1<<20 {
		t.Errorf("GPU: %v", g)
	}
	if h.GetUsedBytes() != 700<<20 || h.GetTemperatureCelsius() != 41 || h.PowerMilliwatts != nil ||
		h.GetLost() != "" ||
		len(h.GetForeign()) != 1 {
		t.Fatalf("hardware: %v", h)
	}
	if f := h.GetForeign()[0]; f.GetPid() != uint32(stranger.Process.Pid) || f.GetUsedBytes() != held ||
		f.GetUser() != "root" ||
		!strings.HasPrefix(f.GetCommand(), "sleep") {
		t.Errorf("foreign: %v", f)
	}
	text := l.scrape()
	for _, want := range []string{
		`phos_gpu_temperature_celsius{gpu="0",name="idle GPU"} 41`, `phos_gpu_lost{gpu="0",name="idle GPU"} 0`,
		`phos_gpu_foreign_processes{gpu="0",name="idle GPU"} 1`, `phos_gpu_memory_held_bytes{gpu="0",name="idle GPU"} 7.340032e+08`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	if strings.Contains(text, "phos_gpu_power_watts{") {
		t.Error("metrics make up the power")
	}
}

// TestSilentDriver checks that phosd works although the driver does not answer.
func TestSilentDriver(t *testing.T) {
	l, _ := driverLab(t, made{Failed: "no"})
	l.run(nil).says("live")
	status := l.status()
	if status.GetDaemon().GetDriverError() == "" || status.GetGpus()[0].GetHardware() != nil ||
		status.GetGpus()[0].GetPrograms() != 1 {
		t.Errorf("status: %v", status)
	}
}

func TestLostGPU(t *testing.T) {
	for name, lose := range map[string]func(*made){
		"event":     func(m *made) { m.Event = &inventory.Event{UUID: idleUUID, Index: 3, Xid: inventory.XidLost} },
		"inventory": func(m *made) { m.Inventory.GPUs[0].Lost = "GPU is lost" },
	} {
		t.Run(name, func(t *testing.T) {
			now := made{Inventory: well()}
			l, says := driverLab(t, now)
			p := l.run(nil)
			p.says("live")
			if failure := l.programOf(p).GetFailure(); failure != "" {
				t.Fatalf("failed already: %s", failure)
			}
			lose(&now)
			says(now)
			// phosd asks by itself every 10 seconds; a status asks at once.
			l.eventually("the program has failed", func() bool { return l.programOf(p).GetFailure() != "" })
			if got := l.programOf(p).GetFailure(); !strings.HasPrefix(
				got,
				"GPU 0 (idle GPU, 00000000:00:00.0): the GPU is lost: ",
			) ||
				name == "event" && !strings.Contains(got, "Xid 79") {
				t.Errorf("failure: %s", got)
			}
			p.do("sticky?")
			p.says("sticky CUDA_ERROR_DEVICE_UNAVAILABLE")
			h := l.status().GetGpus()[0].GetHardware()
			if h.GetLost() == "" || name == "event" && (len(h.GetEvents()) != 1 || h.GetEvents()[0].GetXid() != 79) {
				t.Errorf("hardware: %v", h)
			}
			if name == "event" && !strings.Contains(l.scrape(), `phos_gpu_errors_total{bus="",xid="79"} 1`) {
				t.Error("the event is not counted")
			}
		})
	}
}

// TestHarmlessEvent checks that a fault of one program does not fail others.
func TestHarmlessEvent(t *testing.T) {
	l, _ := driverLab(t, made{Inventory: well(), Event: &inventory.Event{UUID: idleUUID, Xid: 31}})
	p := l.run(nil)
	p.says("live")
	l.eventually(
		"the event is known",
		func() bool { return len(l.status().GetGpus()[0].GetHardware().GetEvents()) == 1 },
	)
	if failure := l.programOf(p).GetFailure(); failure != "" {
		t.Errorf("failed: %s", failure)
	}
	if e := l.status().GetGpus()[0].GetHardware().GetEvents()[0]; !e.GetProgramFault() || e.GetXid() != 31 {
		t.Errorf("event: %v", e)
	}
}

// TestInquiry checks the answer to an inquiry byte by byte, as hijack/wire/inquiry.go defines it.
func TestInquiry(t *testing.T) {
	l, _ := driverLab(t, made{Inventory: well()})
	p := l.run(nil)
	p.says("live")
	conn, err := net.Dial("unix", l.settings.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	inquiry := make([]byte, wire.InquiryBytes)
	order := binary.LittleEndian
	order.PutUint32(inquiry, wire.InquiryMagic)
	order.PutUint32(inquiry[4:], wire.Version)
	if _, err := conn.Write(inquiry); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, wire.AnswerHeadBytes+wire.AnswerDeviceBytes+wire.AnswerHoldingBytes)
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	device, holding := got[wire.AnswerHeadBytes:], got[wire.AnswerHeadBytes+wire.AnswerDeviceBytes:]
	if driver := string(got[wire.AnswerDriver:][:10]); driver != "550.54.15\x00" ||
		order.Uint32(got[wire.AnswerServes:]) != 12040 {
		t.Errorf("driver %q", driver)
	}
	if name := string(device[:9]); name != "idle GPU\x00" || order.Uint64(device[wire.AnswerUsed:]) != 700<<20 ||
		order.Uint64(device[wire.AnswerFree:]) != 300<<20 ||
		order.Uint32(device[wire.AnswerKnown:]) != wire.AnswerKnowsTemperature ||
		order.Uint32(device[wire.AnswerTemperature:]) != 41 {
		t.Errorf("device %q: % x", name, device[wire.AnswerUsed:][:64])
	}
	if order.Uint32(holding[wire.AnswerHolder:]) != uint32(p.Process.Pid) ||
		order.Uint64(holding[wire.AnswerHeld:]) != 1<<20 {
		t.Errorf("holding % x", holding)
	}
}

// scrape is what Prometheus gets.
func (l *lab) scrape() string { return l.httpGet("/metrics") }

// httpGet returns an answer of the metrics' listener.
func (l *lab) httpGet(path string) string {
	l.t.Helper()
	_, socket := l.settings.Metrics.Network()
	client := http.Client{
		Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", socket)
		}},
	}
	reply, err := client.Get("http://phosd" + path)
	if err != nil {
		l.t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(text)
}
