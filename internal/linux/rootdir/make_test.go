package rootdir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMaker checks which missing parents are made: for a user below the user's directories and the
// working directory, for root only below the working directory.
func TestMaker(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: directories of other users")
	}
	const user, other = 61241, 61242
	for name, test := range map[string]struct {
		uid, owner uint32
		from, dir  string // below the test's directory; from is empty if it is elsewhere
		made       []string
	}{
		"the last part":           {user, other, "", "own", []string{"own"}},
		"below the user's":        {user, user, "", "a/b/c", []string{"a", "a/b", "a/b/c"}},
		"below another's":         {user, other, "", "a/b", nil},
		"below root's":            {user, 0, "", "a/b", nil},
		"root below root's":       {0, 0, "", "a/b", nil},
		"root below a user's":     {0, user, "", "a/b", nil},
		"the working directory":   {user, other, ".", "a/b", []string{"a", "a/b"}},
		"root's working one":      {0, 0, ".", "a/b", []string{"a", "a/b"}},
		"beside it":               {0, 0, "work", "workshop/b", nil},
		"out of it and back":      {0, 0, "work", "work/../a/b", nil},
		"the directory is a file": {user, user, "", "file", nil},
		"the parent is a file":    {user, user, ".", "file/a", nil},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			if err := errors.Join(os.WriteFile(filepath.Join(top, "file"), nil, 0o600),
				os.Chown(top, int(test.owner), -1)); err != nil {
				t.Fatal(err)
			}
			from := filepath.Join(top, test.from)
			if test.from == "" {
				from = "/elsewhere"
			}
			var want []string
			for _, each := range test.made {
				want = append(want, filepath.Join(top, each))
			}
			fd, made, err := Maker{At: unix.AT_FDCWD, UID: test.uid, From: from}.Open(top + "/" + test.dir)
			if err == nil {
				defer unix.Close(fd)
			}
			if (err == nil) != (want != nil) || !slices.Equal(made, want) {
				t.Errorf("made %q, %v; want %q", made, err, want)
			}
			for _, each := range made {
				if info, err := os.Stat(each); err != nil || info.Mode().Perm() != private {
					t.Errorf("%v, %v", info, err)
				}
			}
			if entries, _ := os.ReadDir(top); len(entries) > 1 != (want != nil) {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

// TestMakerFromHere checks relative paths.
func TestMakerFromHere(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("in", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir("in")
	here := Maker{At: unix.AT_FDCWD, From: "."}
	for dir, want := range map[string][]string{"a/b": {"a", "a/b"}, "./c": {"c"}, "../d": {"../d"}, "../e/f": nil} {
		fd, made, err := here.Open(dir)
		if err == nil {
			_ = unix.Close(fd)
		}
		var missing *ParentError
		if !slices.Equal(made, want) || want == nil && !(errors.As(err, &missing) && missing.Parent == "../e") {
			t.Errorf("%s: made %q, %v; want %q", dir, made, err, want)
		}
	}
}
