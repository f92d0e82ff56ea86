package guard

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// registered is the major that the kernel's list of devices has for NVIDIA. The others are given
// out when modules are loaded.
const registered = 195

// vendor is how the names begin under which NVIDIA's modules register their majors: nvidia (before
// driver 450 nvidia-frontend), nvidia-uvm, nvidia-modeset, nvidia-caps, nvidia-nvswitch,
// nvidia-caps-imex-channels.
const vendor = "nvidia"

// majors are the character devices that are guarded, with the names of their drivers.
type majors map[uint32]string

// parseMajors reads what /proc/devices says. The registered major is guarded before its driver is
// there, unless another has it: else a process could be faster than the next look.
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

// String is for the log: "nvidia 195, nvidia-uvm 510".
func (m majors) String() string {
	var words []string
	for _, major := range slices.Sorted(maps.Keys(m)) {
		words = append(words, fmt.Sprintf("%s %d", m[major], major))
	}
	return strings.Join(words, ", ")
}
