package trunk

// Role is the argument with which a program calls Main.
const Role = "trunk"

// Descriptors of a trunk. The standard streams are those of its first process, and nothing to read.
const (
	// ReportFD is a pipe that gets each Report as a line.
	ReportFD = 3
	// OrderFD is a file with the list of processes, which is closed once it is read.
	OrderFD = 4

	firstOutput = 5
)

// Streams returns the descriptors that are the standard output and error of a process.
func Streams(process int) (out, err int) {
	if process == 0 {
		return 1, 2
	}
	out = firstOutput + 2*(process-1)
	return out, out + 1
}

// Kept returns the descriptors, besides the standard ones, that a trunk of so many processes has
// until its end.
func Kept(processes int) []int {
	all := []int{ReportFD}
	for i := 1; i < processes; i++ {
		out, err := Streams(i)
		all = append(all, out, err)
	}
	return all
}

// Report is how far the processes are.
type Report struct {
	Processes []Process `json:"processes"`
	// Started means that no more of them will be started.
	Started bool `json:"started,omitempty"`
}

// Process is how far one process is.
type Process struct {
	// PID is that at its start. A restored trunk still has it.
	PID int `json:"pid,omitempty"`
	// Problem says why it could not be started.
	Problem string `json:"problem,omitempty"`
	// Status is how it ended, as returned by waitpid; nil: not yet.
	Status *uint32 `json:"status,omitempty"`
}
