module github.com/sluicegate/sluice/emulators/cluster/tools/pause

go 1.26.0
