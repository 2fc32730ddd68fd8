// Command bare is a minimal HTTP server. Its start time is the reference for functions.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "{\"msg\":\"serving\",\"address\":%q}\n", l.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
}
