package workload

import (
	"errors"
	"strings"
	"testing"
)

// TestColumnOfLongLines: the error about a line that is too long names the column where it is.
func TestColumnOfLongLines(t *testing.T) {
	long := strings.Repeat("x", 2*maxLine)
	for _, test := range []struct{ row, column string }{
		{"0,0,10,1," + long, "user"},
		{"0,0," + long + ",1,a", "duration_s"},
		{`0,"0",10,1,"` + long + `"`, "user"},
		{long, "job_id"},
		{"0,0,10,1,a," + long, ""},
	} {
		text := "job_id,submit_s,duration_s,num_gpus,user\n1,0,10,1,a\n" + test.row + "\n"
		_, err := ReadFrom(strings.NewReader(text), "jobs.csv", Options{Format: "csv"})
		var bad *Error
		if !errors.As(err, &bad) || bad.Line != 3 || bad.Column != test.column || len(err.Error()) > 250 {
			t.Errorf("%.30s: got %v, want line 3, column %q", test.row, err, test.column)
		}
	}
}
