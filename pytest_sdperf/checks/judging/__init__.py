"""What verdicts share: is the machine fit, how strictly is it judged, in which words."""
