// Package config is what phosd is told: /etc/phos/phosd.toml, and the command-line flags that win
// over it.
//
// An unknown key is an error that names its line and the keys that exist, because a setting that is
// silently ignored is worse than a daemon that does not start. Read Config first.
package config
