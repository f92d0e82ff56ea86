// Package jobfile reads pos.yaml, the file in a program's working directory with its job's name and
// settings.
//
// The file is a user's and may be wrong or hostile: its size is bounded, it is read with the user's
// rights (by the worker, never by phosd), and an error in it never keeps a program from starting.
// libphos.so reads daemon_addr itself, because it needs the socket's path before it can connect.
//
// The environment variable PHOS_JOB has the same form. Its keys replace those of the file.
package jobfile
