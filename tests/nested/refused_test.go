package nested

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestRefused starts phosd on faulty drivers, and compares the error of pos_cli with the text that
// an operator should see.
func TestRefused(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	harness.Need(t, "build", harness.Built())
	if _, real := harness.Driver(); real {
		t.Skip("uses fake drivers")
	}
	for _, test := range []struct {
		name string
		// says is the driver's fault; nvml is set if it has a management library.
		says string
		nvml bool
		want string
	}{
		{
			"no entry points", "BARE", false,
			`no usable GPU driver: .*/libcuda\.so\.1 is too old: it lacks cuMemAddressReserve, cuMemMap, cu\w+, cu\w+ and \d+ other calls; phos needs a driver of CUDA 12\.0 \(525\) or newer`,
		},
		{
			"no kernel module", "CUDA_INIT=100 -DNVML_INIT=9", true,
			`no NVIDIA driver: the kernel's module is not loaded \(modprobe nvidia\); install NVIDIA's driver and see that nvidia-smi lists the GPUs, or use the software GPU: pos_cli --start --gpus soft:1 \(`,
		},
		{
			"another kernel module", "CUDA_INIT=803 -DNVML_INIT=18", true,
			`no NVIDIA driver that works: .*libnvidia-ml\.so\.1 and the kernel's module are of two versions, as after an update; restart the machine; install`,
		},
		{
			"inaccessible device nodes", "CUDA_INIT=100 -DNVML_INIT=4", true,
			`no NVIDIA driver that may be used: the device nodes /dev/nvidia\* are closed to this process; install`,
		},
		{
			"no GPU", "CUDA_COUNT=0 -DNVML_COUNT=0", true,
			`driver 550\.54\.15 knows no GPU; see what nvidia-smi and the kernel's log say \(dmesg \| grep NVRM\); in a container, pass the GPUs in \(`,
		},
		{
			"too old", `NVML_VERSION="470.82.01" -DNVML_CUDA=11040`, true,
			`driver 470\.82\.01 serves CUDA 11\.4; phos places GPU memory by calls \(cuMemAddressReserve, cuMemMap and theirs\) as CUDA 12\.0 has them; install a driver of 525 or newer`,
		},
		{
			"MIG", "NVML_MIG=1", true,
			`GPU 0 \(Made Up\) is in MIG mode, in which its memory cannot be saved whole; switch that off: nvidia-smi -i 0 -mig 0`,
		},
		{
			"prohibited", "COMPUTE_MODE=2 -DNVML_MODE=2", true,
			`GPU 0 \(Made Up\) is in compute mode Prohibited, in which no program may use it; allow it: nvidia-smi -i 0 -c DEFAULT`,
		},
		{
			"exclusive", "COMPUTE_MODE=3 -DNVML_MODE=3", true,
			`GPU 0 \(Made Up\) is in compute mode Exclusive_Process, in which one program at a time may use it; phos has a worker for each; allow more: nvidia-smi -i 0 -c DEFAULT \(phosd keeps others out by \[gpus\] exclusive\)`,
		},
		{
			"lost", "CUDA_INIT=999 -DNVML_HANDLE=15", true,
			`GPU 0 is lost: GPU is lost; reset it \(nvidia-smi --gpu-reset\) or restart the machine; look for Xid in the kernel's log \(`,
		},
		// Without a management library, as in some containers, CUDA reports less.
		{
			"prohibited, from CUDA", "COMPUTE_MODE=2", false,
			`describe GPU 0: GPU cannot be used: .*: Made Up is in compute mode prohibited; nvidia-smi -c 0 lets programs use it`,
		},
		{
			"exclusive, from CUDA", "COMPUTE_MODE=3", false,
			`describe GPU 0: .*: Made Up is in compute mode exclusive, for one process; nvidia-smi -c 0 lets several use it`,
		},
		{
			"no virtual memory, from CUDA", "VIRTUAL_MEMORY=0", false,
			`describe GPU 0: .*: Made Up has no virtual memory management; the driver must be 11\.2 or later`,
		},
		{
			"no shared addresses, from CUDA", "UNIFIED=0", false,
			`describe GPU 0: .*: Made Up does not share addresses with the host`,
		},
		{"no GPU, count from CUDA", "CUDA_COUNT=0", false, `the driver has no GPU: CUDA_ERROR_NO_DEVICE`},
		{
			"no GPU, from CUDA", "CUDA_INIT=100", false,
			`no usable GPU driver: .*/libcuda\.so\.1: cuInit: CUDA_ERROR_NO_DEVICE`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			driver := makeDriver(t, test.says, test.nvml)
			output, err := startPhosd(t, "--gpus=cuda", "--set", "gpus.driver="+driver).CombinedOutput()
			if err == nil || !regexp.MustCompile(`^pos_cli --start: gpus cuda:driver=\S*: `+test.want).Match(output) ||
				strings.Count(string(output), "\n") != 1 {
				t.Errorf("%v: got\n%s\nwant %s", err, output, test.want)
			}
			t.Logf("%s", output)
		})
	}
}

// TestNoDriver starts phosd on a file that is not a library.
func TestNoDriver(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	harness.Need(t, "build", harness.Built())
	driver := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(driver, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := startPhosd(t, "--gpus=cuda", "--set", "gpus.driver="+driver).CombinedOutput()
	if want := ": no usable GPU driver: open " + driver + ": "; err == nil || !strings.Contains(string(output), want) {
		t.Errorf("%v: got\n%s\nwant %s", err, output, want)
	}
}

// TestDriverFound starts phosd with a driver in a folder that only LD_LIBRARY_PATH names. Earlier
// in the path is our own library under the driver's name, as for a program under phos. phosd must
// use the driver, with both its libraries.
func TestDriverFound(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	harness.Need(t, "build", harness.Built())
	if _, real := harness.Driver(); real {
		t.Skip("uses fake drivers")
	}
	for _, test := range []struct {
		name, says string
		nvml       bool
		want       string
	}{
		{"by CUDA", "COMPUTE_MODE=2", false, `Made Up is in compute mode prohibited`},
		{"by NVML", "NVML_MIG=1", true, `GPU 0 \(Made Up\) is in MIG mode`},
	} {
		t.Run(test.name, func(t *testing.T) {
			driver := makeDriver(t, test.says, test.nvml)
			start := startPhosd(t, "--gpus=cuda")
			start.Env = append(
				os.Environ(),
				"LD_LIBRARY_PATH="+filepath.Join(harness.Bin(), "lib")+":"+filepath.Dir(driver),
			)
			output, err := start.CombinedOutput()
			if err == nil || !regexp.MustCompile(test.want).Match(output) {
				t.Errorf("%v: got\n%s\nwant %s", err, output, test.want)
			}
		})
	}
}

// startPhosd starts a phosd that is expected to fail.
func startPhosd(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	run, err := os.MkdirTemp("/run", "phos-test-") // t.TempDir's paths are too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	return exec.Command(filepath.Join(harness.Bin(), "pos_cli"), append([]string{
		"--start", "--config=" + os.DevNull, "--runtime-dir=" + run, "--socket=" + filepath.Join(run, "s"),
	}, arguments...)...)
}

// makeDriver compiles libcuda.so.1, and libnvidia-ml.so.1 beside it, and returns the path of the
// first.
func makeDriver(t *testing.T, says string, nvml bool) string {
	t.Helper()
	dir := t.TempDir()
	others := filepath.Join(dir, "stubs.c")
	source, err := filepath.Abs(filepath.Join("testdata", "driver.c"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(others, []byte(stubs(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"-shared", "-fPIC", "-O1", "-w", "-Wl,-z,muldefs", source}
	for definition := range strings.SplitSeq(says, " -D") {
		name, value, _ := strings.Cut(definition, "=")
		arguments = append(arguments, "-D"+name+"="+value)
	}
	if says != "BARE" {
		arguments = append(arguments, others)
	}
	libraries := []string{"libcuda.so.1"}
	if nvml {
		libraries = append(libraries, "libnvidia-ml.so.1")
		arguments = append(arguments, "-DNVML")
	}
	for _, library := range libraries {
		if said, err := exec.Command("gcc", slices.Concat(
			arguments, []string{"-o", filepath.Join(dir, library)},
		)...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, said)
		}
	}
	return filepath.Join(dir, "libcuda.so.1")
}

// stubs returns a source with every entry point of libphos.so, none of which is supported. Those in
// testdata/driver.c take precedence.
func stubs(t *testing.T) string {
	t.Helper()
	file, err := elf.Open(filepath.Join(harness.Bin(), "libphos.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && (strings.HasPrefix(s.Name, "cu") || strings.HasPrefix(s.Name, "nvml")) {
			fmt.Fprintf(
				&text,
				"int %s(void) { return %d; }\n",
				s.Name,
				map[bool]int{true: 801, false: 3}[strings.HasPrefix(s.Name, "cu")],
			)
		}
	}
	return text.String()
}

// TestUnusedDriver starts phosd with --gpus auto on a driver that fails. A software GPU serves, and
// the command, the log and the status say why.
func TestUnusedDriver(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	harness.Need(t, "build", harness.Built())
	if _, real := harness.Driver(); real {
		t.Skip("uses fake drivers")
	}
	driver := makeDriver(t, "CUDA_INIT=999", false)
	log := filepath.Join(t.TempDir(), "log")
	start := startPhosd(t, "--gpus=auto", "--log-file="+log, "--set=state_dir="+t.TempDir())
	start.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(driver))
	output, err := start.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	socket := ""
	for _, argument := range start.Args {
		if path, ok := strings.CutPrefix(argument, "--socket="); ok {
			socket = path
		}
	}
	command := func(arguments ...string) string {
		c := exec.Command(start.Path, arguments...)
		c.Env = append(os.Environ(), "PHOS_SOCKET="+socket)
		text, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", arguments, err, text)
		}
		return string(text)
	}
	defer command("--stop")
	const why = "cuInit: CUDA_ERROR_UNKNOWN"
	if !regexp.MustCompile(`^phosd is ready at \S+, serves 1 software GPU \(.*` + why).Match(output) {
		t.Errorf("--start prints\n%s", output)
	}
	text, err := os.ReadFile(log)
	if err != nil || !regexp.MustCompile(`level=WARN msg="a software GPU serves.*`+why).Match(text) {
		t.Errorf("%v: the log has\n%s", err, text)
	}
	table := command("--status")
	if !regexp.MustCompile(`\nwarning: a software GPU serves.*`+why).MatchString(table) || strings.Count(table, why) != 1 {
		t.Errorf("--status prints\n%s", table)
	}
	var status struct {
		Daemon struct {
			Warnings    []string
			DriverError string `json:"driver_error"`
		}
	}
	if err := json.Unmarshal([]byte(command("--status", "--json")), &status); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(status.Daemon.DriverError, why) ||
		!strings.Contains(strings.Join(status.Daemon.Warnings, "\n"), why) {
		t.Errorf("--status --json has %+v", status.Daemon)
	}
}
