package guard

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// registered is the major that Linux reserves for NVIDIA. The others are assigned when modules are
// loaded.
const registered = 195

// vendor is the prefix of the names under which NVIDIA's modules register their majors: nvidia
// (before driver 450 nvidia-frontend), nvidia-uvm, nvidia-modeset, nvidia-caps, nvidia-nvswitch,
// nvidia-caps-imex-channels.
const vendor = "nvidia"

// majors are guarded character devices, with the names of their drivers.
type majors map[uint32]string

// parseMajors parses /proc/devices. The registered major is guarded before its driver is loaded,
// unless another driver has it: otherwise a process could open it before the next look.
func parseMajors(text string) majors {
	found, taken := majors{}, false
	_, characters, _ := strings.Cut("\n"+text, "\nCharacter devices:")
	characters, _, _ = strings.Cut(characters, "\nBlock devices:")
	for line := range strings.Lines(characters) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		major, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(name), vendor) {
			found[uint32(major)] = strings.TrimSpace(name)
		}
		taken = taken || major == registered
	}
	if !taken {
		found[registered] = vendor
	}
	return found
}

func readMajors(path string) (majors, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	return parseMajors(string(text)), nil
}

// String formats the majors for the log: "nvidia 195, nvidia-uvm 510".
func (m majors) String() string {
	var words []string
	for _, major := range slices.Sorted(maps.Keys(m)) {
		words = append(words, fmt.Sprintf("%s %d", m[major], major))
	}
	return strings.Join(words, ", ")
}
