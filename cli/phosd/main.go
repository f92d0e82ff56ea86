package main

import "os"

// version is set by build.sh.
var version string

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
