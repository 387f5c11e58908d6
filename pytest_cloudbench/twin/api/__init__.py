"""The region's API: EC2, SSM parameters, STS and CloudWatch over HTTP on loopback."""
