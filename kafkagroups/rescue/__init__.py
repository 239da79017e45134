"""Groups of a dead or damaged cluster, and their way into another cluster: a plan, and its application"""
