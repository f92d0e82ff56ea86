package proc

import "testing"

// TestParseInfo checks lines in the kernel's form: proc_pid_fdinfo(5), proc_locks(5).
func TestParseInfo(t *testing.T) {
	const head = "pos:\t0\nflags:\t0102001\nmnt_id:\t24\nino:\t77\n"
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"lock:\t1: POSIX  ADVISORY  READ  7 08:01:1234 1073741826 1073742335\n", "read"},
		{"lock:\t1: POSIX  ADVISORY  WRITE 7 08:01:77 120 120\nlock:\t2: POSIX  ADVISORY  READ 7 08:01:77 0 9\n", "write"},
		{"lock:\t1: FLOCK  ADVISORY  WRITE 8 08:01:77 0 EOF\n", "write"},
		{"lock:\t1: OFDLCK ADVISORY  READ  -1 08:01:77 0 EOF\n", "read"},
		{"lock:\t1: LEASE  ACTIVE    WRITE 7 08:01:77 0 EOF\n", ""},
		{"lock:\t1:\n", ""},
	} {
		got := parseInfo(head + test.text)
		want := Info{Flags: 0o102001, Terminal: -1, Mount: 24, Inode: 77, Lock: test.want}
		if got != want {
			t.Errorf("%q: got %+v, want %+v", test.text, got, want)
		}
	}
	if got := parseInfo("tty-index:\t5\n"); got.Terminal != 5 || got.Writable() {
		t.Errorf("got %+v, want terminal 5, not writable", got)
	}
}
