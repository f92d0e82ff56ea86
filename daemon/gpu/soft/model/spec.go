package model

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// Spec describes the software GPUs of a machine.
type Spec struct {
	// Count is the number of devices.
	Count int
	// Deterministic makes results repeatable bit by bit: one kernel at a time, blocks in order.
	Deterministic bool
	// MemoryBytes is the capacity of each device.
	MemoryBytes uint64
	Name        string
	// CC is the compute capability times ten: 90 for 9.0.
	CC int
	// Driver is the driver version that the devices report, 0 for the default. A runtime rejects a
	// driver older than itself. The version does not change how calls behave.
	Driver int32
	// Cores is the maximum of processors for one kernel; 0 means all.
	Cores int
	// Blank devices take machine code, and its kernels do nothing. They show what a program asks of a
	// driver.
	Blank bool
	// Untracked devices do not report dirty memory. A checkpoint compares digests instead, as on real
	// devices.
	Untracked bool
}

const (
	maxDevices         = 24 // number of reserved context handles and ledger rows
	defaultMemoryBytes = 8 << 30
	maxMemoryBytes     = 1 << 40 // the size of a device's address window
	defaultName        = "phos software GPU"
	blankMark          = " (blank: computes nothing)"
	maxNameBytes       = 255 - len(blankMark)
)

// ErrSpec is in the chain of every error of Parse.
var ErrSpec = errors.New("bad specification of software GPUs")

const specForm = "soft:N[,deterministic][,memory=8GiB][,name=TEXT][,cc=9.0][,cuda=12.4][,cores=K][,marks=off][,blank]"

// Parse reads "soft:N" with its options.
func Parse(text string) (Spec, error) {
	spec := Spec{MemoryBytes: defaultMemoryBytes, Name: defaultName, CC: 90}
	head, options, hasOptions := strings.Cut(text, ",")
	kind, count, hasCount := strings.Cut(head, ":")
	if kind != "soft" {
		return Spec{}, fmt.Errorf("%w: %q does not have the form %s", ErrSpec, text, specForm)
	}
	if !hasCount {
		count = "1"
	}
	var err error
	if spec.Count, err = parseNumber(count, 1, maxDevices); err != nil {
		return Spec{}, fmt.Errorf("%w: number of devices: %w", ErrSpec, err)
	}
	if !hasOptions {
		return spec, nil
	}
	for option := range strings.SplitSeq(options, ",") {
		if err := spec.setOption(option); err != nil {
			return Spec{}, fmt.Errorf("%w: option %q: %w", ErrSpec, option, err)
		}
	}
	if spec.Blank {
		spec.Name += blankMark
	}
	return spec, nil
}

// Limits returns the limits of the devices' architecture.
func (s Spec) Limits() Limits { return limitsOf(s.CC) }

// setOption sets one option of the form key or key=value.
func (s *Spec) setOption(option string) (err error) {
	key, value, hasValue := strings.Cut(option, "=")
	switch key {
	case "deterministic", "blank":
		if hasValue {
			return errors.New("the option takes no value")
		}
		s.Deterministic = s.Deterministic || key == "deterministic"
		s.Blank = s.Blank || key == "blank"
	case "memory":
		s.MemoryBytes, err = parseMemorySize(value)
	case "name":
		if value == "" || len(value) > maxNameBytes {
			return fmt.Errorf("a name has 1 to %d bytes", maxNameBytes)
		}
		s.Name = value
	case "cc":
		s.CC, err = parseCapability(value)
	case "cuda":
		s.Driver, err = parseDriverVersion(value)
	case "cores":
		s.Cores, err = parseNumber(value, 1, 1024)
	case "marks":
		if value != "on" && value != "off" {
			return errors.New("the value must be on or off")
		}
		s.Untracked = value == "off"
	default:
		return errors.New(
			"no such option; options are: deterministic, memory=SIZE, name=TEXT, cc=MAJOR.MINOR, " +
				"cuda=MAJOR.MINOR, cores=N, marks=off, blank",
		)
	}
	return err
}

// parseNumber parses an integer and checks its bounds.
func parseNumber(text string, minimum, maximum int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < minimum || n > maximum {
		return 0, fmt.Errorf("%q is not a number from %d to %d", text, minimum, maximum)
	}
	return n, nil
}

// parseMemorySize parses "8GiB" or "512MiB". The size must be whole chunks, at least 16 MiB.
func parseMemorySize(text string) (uint64, error) {
	for suffix, shift := range map[string]uint{"MiB": 20, "GiB": 30} {
		digits, found := strings.CutSuffix(text, suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		bytes := n << shift
		if err != nil || bytes < 16<<20 || bytes > maxMemoryBytes || bytes%gpu.ChunkBytes != 0 {
			break
		}
		return bytes, nil
	}
	return 0, fmt.Errorf(
		"%q is not a size: give a whole number of MiB or GiB, from 16MiB to 1024GiB, and even in MiB",
		text,
	)
}

// parseCapability parses "9.0" and checks that the capability is known.
func parseCapability(text string) (int, error) {
	major, minor, found := strings.Cut(text, ".")
	var names []string
	for _, c := range capabilities {
		name := fmt.Sprintf("%d.%d", c.CC/10, c.CC%10)
		if found && major+"."+minor == name {
			return c.CC, nil
		}
		names = append(names, name)
	}
	return 0, fmt.Errorf("%q is not one of %s", text, strings.Join(names, ", "))
}

// parseDriverVersion parses "12.4", a CUDA version whose calls libphos.so implements.
func parseDriverVersion(text string) (int32, error) {
	major, minor, found := strings.Cut(text, ".")
	m, err := parseNumber(major, 12, gpu.NewestDriver/1000)
	n, err2 := parseNumber(minor, 0, 9)
	version := int32(1000*m + 10*n)
	if !found || err != nil || err2 != nil || version > gpu.NewestDriver {
		return 0, fmt.Errorf("%q is not a version from 12.0 to 13.0", text)
	}
	return version, nil
}
