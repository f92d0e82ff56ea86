// Package account looks up the names of user accounts.
package account

import (
	"os"
	"os/user"
	"strconv"
	"strings"
)

// Name returns the name of a user, or the number where this machine does not know the user.
func Name(uid uint32) string {
	if name := KnownName(uid); name != "" {
		return name
	}
	return strconv.FormatUint(uint64(uid), 10)
}

// KnownName returns the name of a user, or "" where this machine does not know the user.
func KnownName(uid uint32) string {
	found, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return ""
	}
	return found.Username
}

// Overflow returns the number that stands for all users which the user namespace of this process
// does not map. It names no user: two processes with it may be of two users.
func Overflow() uint32 {
	const usual = 65534
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return usual
	}
	uid, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return usual
	}
	return uint32(uid)
}
