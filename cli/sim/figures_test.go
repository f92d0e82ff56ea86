package sim

import "strings"

// times returns the first five columns of jobs.csv, up to preemptions. None of them has a comma.
func times(csv []byte) string {
	var out strings.Builder
	for line := range strings.Lines(string(csv)) {
		out.WriteString(strings.Join(strings.Split(line, ",")[:5], ",") + "\n")
	}
	return out.String()
}
